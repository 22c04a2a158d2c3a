import type { Op } from "../../../engine/engine.ts";
import { newest } from "../statements/newest.ts";
import { changesPolicy } from "../verbs/queues.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Whether an operation needs nobody else's transaction to be open. Each goes by what the queues, the subscriptions and
 * the listeners were when it began: one that began before a queue was paused could hand out a task that was added after,
 * and one that began before somebody listened would tell nothing of it.
 *
 * Asked for when the transaction begins, it cannot end in two that wait for each other to let go.
 */
export function needsExclusive(tx: Tx, op: Op): boolean {
  switch (op.verb) {
    case "pause":
    case "unsubscribe":
      return true;
    case "listen":
      return op.after === null;
    case "declare":
      return changesPolicy(tx.queues.named(op.queue), op.policy, op);
    default:
      return false;
  }
}

/**
 * Whether it is the last call that drops a queue, after which nothing of it is left. To find that out once the batch has begun
 * would make it start again.
 */
export async function endsQueues(tx: Tx, ops: readonly Op[]): Promise<boolean> {
  for (const op of ops) {
    if (op.verb !== "drop") continue;
    const queue = tx.queues.named(op.queue);
    // Made by this very batch, or by others since this connection looked.
    if (!queue) return true;
    const depth = Object.values(await tx.counters.depth(queue)) as number[];
    if (depth.reduce((sum, count) => sum + count, 0) <= op.limit) return true;
  }
  return false;
}

const NOT_LIMITED = `
  SELECT 1 FROM dibs.claim
  WHERE task = ANY ($1::int8[]) AND NOT EXISTS (SELECT 1 FROM dibs.gate WHERE ${newest("gate", "claim.queue")}) LIMIT 1`;

/**
 * The same of operations that hold back a queue which had no limits: others go by that until their commits, and do not
 * count who has its groups. Only the store knows which queue it is, and is asked before the batch begins.
 */
export async function bringLimits(tx: Tx, ops: readonly Op[]): Promise<boolean> {
  const holding = ops.filter((op) => op.verb === "settle" && op.settlement.kind === "hold") as Op<"settle">[];
  if (holding.length === 0) return false;
  if (!tx.queues.areKnown) return true;
  const seqs = holding.flatMap(({ id }) => tx.place(id)?.seq ?? []);
  return (await tx.get(NOT_LIMITED, seqs)) !== undefined;
}
