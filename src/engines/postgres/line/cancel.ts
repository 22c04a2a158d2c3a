import { isEnd, type TaskState } from "../../../core/task.ts";
import { dropResults, endRun, pendingTasks } from "../flows/runs.ts";
import type { Tx } from "../transaction/tx.ts";
import { findBySeq } from "./find-task.ts";
import { end, endCancelled } from "./line.ts";
import { notify } from "./notices.ts";
import { lockClaim, lockPlace, takeOut } from "./take-out.ts";

/**
 * Cancels tasks. The verb `cancel` calls it, and everything that can end a run. The end of a task can end its run, which
 * cancels the run's other tasks. line.ts only notes such a run in `tx.batch.endedRuns`, and its callers cancel the rest.
 */

const SET_CANCELLED = `UPDATE dibs.claim SET cancelled = true WHERE task = $1`;

/** One task. A claimed one ends as soon as its worker has let go of it. */
export async function cancelTask(tx: Tx, seq: number): Promise<{ state: TaskState }> {
  for (;;) {
    const task = await findBySeq(tx, seq);
    if (!task) return { state: "cancelled" };
    const { place } = task;
    if (place.state === "claimed") {
      const claim = await lockClaim(tx, task.seq, place.held.fence);
      // It was settled between the two statements, so it is in another state now.
      if (!claim) continue;
      if (!claim.cancelled) {
        tx.send(SET_CANCELLED, task.seq);
        notify(tx, "cancel", place.held);
      }
      return { state: "claimed" };
    }
    if (isEnd(place.state)) return { state: place.state };
    if (place.state === "verifying") {
      if (!(await lockPlace(tx, task))) continue;
      return { state: await endCancelled(tx, place.held) };
    }
    if (await takeOut(tx, task)) return { state: await end(tx, task, "cancelled") };
  }
}

/** Ends these runs as cancelled, with all their tasks. */
export async function cancelRuns(tx: Tx, runs: readonly number[]): Promise<void> {
  for (const run of runs) await endRun(tx, run, "cancelled", null);
  await cancelRestOfRuns(tx);
}

/** Cancels what is left of the runs that have ended in this batch. */
export async function cancelRestOfRuns(tx: Tx): Promise<void> {
  const { endedRuns } = tx.batch;
  while (endedRuns.length > 0) {
    const run = endedRuns.shift()!;
    dropResults(tx, run);
    for (const task of await pendingTasks(tx, run)) await cancelTask(tx, task);
  }
}
