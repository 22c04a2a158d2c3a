import type { Op, Outcome } from "../../engine/engine.ts";
import { claimAtOnce } from "./claim-head.ts";
import type { Tx } from "./tx.ts";

/**
 * Sends an operation that one statement carries out whole, counters and all. Alone in its batch it goes along with the
 * header, and its commit as soon as the header has told the transaction's number, while the statement is being carried
 * out: a worker that waits for a task gets it a round trip sooner.
 *
 * Whoever sends a commit before the answer has come may lose that answer: then it can be found out that it happened, but
 * not what. So it is only for what its caller can set right: a worker tells the store which claims it has (`reconcile`).
 *
 * Answers what it did. Undefined: the store was not as expected. The statement sees to that itself, and has done nothing
 * then: the operation is to be carried out step by step.
 */
export type AtOnce = () => Promise<{ changed: boolean; outcome: Outcome } | undefined>;

/** Undefined where it is not known to be that simple. */
export function atOnce(tx: Tx, ops: readonly Op[]): AtOnce | undefined {
  const [op] = ops;
  // Events have to be numbered, and what others' transactions have left comes first.
  if (ops.length !== 1 || !tx.queues.areKnown || tx.events.listeners > 0 || tx.hasInbox) return undefined;
  return op!.verb === "claim" ? claimAtOnce(tx, op as Op<"claim">) : undefined;
}
