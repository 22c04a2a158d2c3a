import { isEnd, type TaskState } from "../../../core/task/task.ts";
import { abandon } from "../flows/children.ts";
import type { Tx } from "../transaction/tx.ts";
import { findBySeq } from "./find-task.ts";
import { end, endCancelled } from "./line.ts";
import { notify } from "./notices.ts";
import { lockClaim, lockPlace, takeOut } from "./take-out.ts";

/** Cancels one task. The verb `cancel` calls it, and follow-ends.ts, for the tasks that end with another one. */

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
        await tx.runs.recheck([task.seq]);
        await abandon(tx, task.seq);
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
