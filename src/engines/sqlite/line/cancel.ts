import type { TaskState } from "../../../core/task/task.ts";
import { abandon } from "../flows/children.ts";
import type { Tx } from "../transaction/tx.ts";
import { type Found, takeOut } from "./find-task.ts";
import { closeAttempt, end } from "./line.ts";
import { notify } from "./notices.ts";

/** Cancels one task. The verb `cancel` calls it, and follow-ends.ts, for the tasks that end with another one. */

const CANCEL_CLAIM = `UPDATE claim SET cancelled = 1 WHERE task = ? AND cancelled = 0`;

/** One task. A claimed one ends as soon as its worker has let go of it. */
export function cancelTask(tx: Tx, task: Found): TaskState {
  const { place } = task;
  if (place.state === "claimed") {
    if (tx.run(CANCEL_CLAIM, task.seq) > 0) notify(tx, "cancel", place.held);
    if (place.held.stepped) abandon(tx, task.seq);
    return "claimed";
  }
  if (place.state === "verifying") closeAttempt(tx, place.held, "cancelled", null);
  else takeOut(tx, task);
  return end(tx, task, "cancelled");
}
