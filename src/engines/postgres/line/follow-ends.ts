import { isChildrenSignal } from "../../../core/handler/children-signal.ts";
import { awaitedSignal, awaitsChildren } from "../flows/children.ts";
import { dropResults, endRun, pendingTasks } from "../flows/runs.ts";
import type { Tx } from "../transaction/tx.ts";
import { cancelTask } from "./cancel.ts";
import { findBySeq } from "./find-task.ts";
import { announceTask, returnToLine } from "./line.ts";
import { takeOut } from "./take-out.ts";

/**
 * What the end of a task means for other tasks: the rest of its run is cancelled, its parent is woken, its children are
 * cancelled. The flows only note that in the batch. Every verb is followed by this, and so is each end in a sweep.
 */
export async function followEnds(tx: Tx): Promise<void> {
  const { endedRuns, relieved, abandoned } = tx.batch;
  for (;;) {
    if (endedRuns.length > 0) await cancelRest(tx, endedRuns.shift()!);
    else if (relieved.length > 0) await wakeParent(tx, relieved.shift()!);
    else if (abandoned.length > 0) await cancelTask(tx, abandoned.shift()!);
    else return;
  }
}

/** Ends these runs as cancelled, with all their tasks. */
export async function cancelRuns(tx: Tx, runs: readonly number[]): Promise<void> {
  for (const run of runs) await endRun(tx, run, "cancelled", null);
  await followEnds(tx);
}

async function cancelRest(tx: Tx, run: number): Promise<void> {
  dropResults(tx, run);
  for (const task of await pendingTasks(tx, run)) await cancelTask(tx, task);
}

/** A child has ended. Its parent continues if it waits for its children, and this was the last of them. */
async function wakeParent(tx: Tx, seq: number): Promise<void> {
  const signal = await awaitedSignal(tx, seq);
  if (!isChildrenSignal(signal) || (await awaitsChildren(tx, seq, signal))) return;
  const parent = await findBySeq(tx, seq);
  // Its timeout may have passed, or it was cancelled, since the first statement.
  if (parent?.place.state !== "parked" || !(await takeOut(tx, parent))) return;
  announceTask(tx, "task.signalled", parent, { detail: signal });
  await returnToLine(tx, { ...parent, stepped: true }, { delay: 0 });
}
