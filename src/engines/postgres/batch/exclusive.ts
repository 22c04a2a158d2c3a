import type { Op } from "../../../engine/engine.ts";
import { newest } from "../statements/newest.ts";
import { hasSubscription } from "../transaction/topics.ts";
import type { Tx } from "../transaction/tx.ts";
import { changesPolicy } from "../verbs/queues.ts";

/**
 * Which batches are exclusive, for store.ts. A batch works with the queues, subscriptions and listeners that its header
 * read. One that began before a queue was paused could claim a task that was added after the pause; one that began before
 * a process listened would write no events. So whatever changes these waits until no other batch is in progress.
 *
 * This is decided before the batch begins: if two batches shared the catalogue's lock and then wanted it exclusively, they
 * would wait for each other.
 */
export async function isExclusive(tx: Tx, ops: readonly Op[]): Promise<boolean> {
  return (
    ops.some((op) => needsExclusive(tx, op)) ||
    (await setsFirstHold(tx, ops)) ||
    (await dropsExclusively(tx, ops))
  );
}

function needsExclusive(tx: Tx, op: Op): boolean {
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

/** Whether a drop removes subscriptions, as the first call may, or the queue itself, as the last one does. */
async function dropsExclusively(tx: Tx, ops: readonly Op[]): Promise<boolean> {
  for (const op of ops) {
    if (op.verb !== "drop") continue;
    const queue = tx.queues.named(op.queue);
    // This batch makes it, or another process has since this connection read the queues.
    if (!queue || ops.some((other) => other.verb === "subscribe" && other.queue === op.queue)) return true;
    if (await hasSubscription(tx, queue)) return true;
    const depth = Object.values(await tx.counters.depth(queue)) as number[];
    if (depth.reduce((sum, count) => sum + count, 0) <= op.limit) return true;
  }
  return false;
}

const NOT_LIMITED = `
  SELECT 1 FROM dibs.claim
  WHERE task = ANY ($1::int8[]) AND NOT EXISTS (SELECT 1 FROM dibs.gate WHERE ${newest("gate", "claim.queue")}) LIMIT 1`;

/** Whether a hold is the first limit of its queue: other batches do not count the tasks of its groups until then. */
async function setsFirstHold(tx: Tx, ops: readonly Op[]): Promise<boolean> {
  const holding = ops.filter((op) => op.verb === "settle" && op.settlement.kind === "hold") as Op<"settle">[];
  if (holding.length === 0) return false;
  if (!tx.queues.areKnown) return true;
  const seqs = holding.flatMap(({ id }) => tx.place(id)?.seq ?? []);
  return (await tx.get(NOT_LIMITED, seqs)) !== undefined;
}
