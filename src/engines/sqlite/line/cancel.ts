import { isEnd, type TaskState } from "../../../core/task.ts";
import { pendingTasks } from "../flows/runs.ts";
import type { Tx } from "../transaction/tx.ts";
import { findBySeq, type Found, takeOut } from "./find-task.ts";
import { closeAttempt, end } from "./line.ts";
import { notify } from "./notices.ts";

/**
 * Cancels tasks. The verb `cancel` calls it, and everything that can end a run. The end of a task can end its run, which
 * cancels the run's other tasks. flows/runs.ts only notes such a run in `tx.batch.endedRuns`, and its callers cancel the
 * rest.
 */

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

/** Cancels what is left of the runs that have ended in this batch. */
export function cancelRestOfRuns(tx: Tx): void {
  const { endedRuns } = tx.batch;
  while (endedRuns.length > 0) {
    for (const seq of pendingTasks(tx, endedRuns.shift()!)) {
      const task = findBySeq(tx, seq);
      if (task && !isEnd(task.place.state)) cancelTask(tx, task);
    }
  }
}
