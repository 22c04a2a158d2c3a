import type { Verbs } from "../../../engine/engine.ts";
import { taskNotFound } from "../../../core/task-not-found.ts";
import { isEnd, type TaskState } from "../../../core/task.ts";
import { end, endCancelled } from "../line/line.ts";
import { findBySeq, findTask } from "../line/find-task.ts";
import { cancelItsRun } from "../flows/runs.ts";
import { notify } from "../line/sweep.ts";
import { lockPlace, takeOut, tryClaim } from "../line/take-out.ts";
import type { Tx } from "../transaction/tx.ts";

const SET_CANCELLED = `UPDATE dibs.claim SET cancelled = true WHERE task = $1`;

export async function cancel(tx: Tx, { id }: Verbs["cancel"]["in"]): Promise<{ state: TaskState }> {
  const task = await findTask(tx, id);
  if (!task) throw taskNotFound(id);
  const { state } = task.place;
  if (!isEnd(state) && (await cancelItsRun(tx, task)))
    return { state: state === "claimed" ? "claimed" : "cancelled" };
  return cancelTask(tx, task.seq);
}

/** It alone: of a run, the others are cancelled by whoever calls this. */
export async function cancelTask(tx: Tx, seq: number): Promise<{ state: TaskState }> {
  for (;;) {
    const task = await findBySeq(tx, seq);
    if (!task) return { state: "cancelled" };
    const { place } = task;
    if (place.state === "claimed") {
      const claim = await tryClaim(tx, task.seq, place.held.fence);
      // It was settled between the two statements: it is elsewhere now.
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
