import type { Verbs } from "../../../engine/engine.ts";
import { taskNotFound } from "../../../core/task-not-found.ts";
import { isEnd, type TaskState } from "../../../core/task.ts";
import { closeAttempt, end } from "../line/line.ts";
import { findBySeq, findTask, type Found, takeOut } from "../line/find-task.ts";
import { cancelItsRun } from "../flows/runs.ts";
import { notify } from "../line/sweep.ts";
import type { Tx } from "../transaction/tx.ts";

const CANCEL_CLAIM = `UPDATE claim SET cancelled = 1 WHERE task = ? AND cancelled = 0`;

export function cancel(tx: Tx, { id }: Verbs["cancel"]["in"]): { state: TaskState } {
  const task = findTask(tx, id);
  if (!task) throw taskNotFound(id);
  const { place } = task;
  if (isEnd(place.state)) return { state: place.state };
  if (!cancelItsRun(tx, task)) return { state: cancelTask(tx, task) };
  return { state: place.state === "claimed" ? "claimed" : "cancelled" };
}

/** It alone: of a run, the others are cancelled by whoever calls this. */
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

/** With its run, which is over. */
export function cancelPending(tx: Tx, seq: number): void {
  const task = findBySeq(tx, seq);
  if (task && !isEnd(task.place.state)) cancelTask(tx, task);
}
