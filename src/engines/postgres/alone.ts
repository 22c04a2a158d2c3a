import type { Op } from "../../engine/engine.ts";
import { isNews } from "./queues.ts";
import type { Tx } from "./tx.ts";

/**
 * Whether an operation needs nobody else's transaction to be open. Each goes by what the queues, the subscriptions and
 * the listeners were when it began: one that began before a queue was paused could hand out a task that was added after,
 * and one that began before somebody listened would tell nothing of it.
 *
 * Asked for when the transaction begins, it cannot end in two that wait for each other to let go.
 */
export function hasToBeAlone(tx: Tx, op: Op): boolean {
  switch (op.verb) {
    case "pause":
    case "unsubscribe":
      return true;
    case "listen":
      return op.after === null;
    case "declare":
      return isNews(tx.queueNamed(op.queue), op.policy, op.force ?? false);
    default:
      return false;
  }
}
