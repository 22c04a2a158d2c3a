import { isEnd, type TaskState } from "../../../core/task.ts";
import type { Tx } from "../transaction/tx.ts";
import { findBySeq, type Found, takeOut } from "./find-task.ts";
import { closeAttempt, end } from "./line.ts";
import { notify } from "./sweep.ts";

/** Cancels tasks. The verb `cancel` calls it, and flows/runs.ts when a run ends before all its tasks have. */

const CANCEL_CLAIM = `UPDATE claim SET cancelled = 1 WHERE task = ? AND cancelled = 0`;

/** One task. A claimed one ends as soon as its worker has let go of it. */
export function cancelTask(tx: Tx, task: Found): TaskState {
  const { place } = task;
  if (place.state === "claimed") {
    if (tx.run(CANCEL_CLAIM, task.seq) > 0) notify(tx, "cancel", place.held);
    return "claimed";
  }
  if (place.state === "verifying") closeAttempt(tx, place.held, "cancelled", null);
  else takeOut(tx, task);
  return end(tx, task, "cancelled");
}

/** A task of a run that has ended. */
export function cancelPending(tx: Tx, seq: number): void {
  const task = findBySeq(tx, seq);
  if (task && !isEnd(task.place.state)) cancelTask(tx, task);
}
