import { isChildrenSignal } from "../../../core/handler/children-signal.ts";
import { isEnd } from "../../../core/task/task.ts";
import { awaitsChildren } from "../flows/children.ts";
import { pendingTasks } from "../flows/runs.ts";
import type { Tx } from "../transaction/tx.ts";
import { cancelTask } from "./cancel.ts";
import { findBySeq, takeOut } from "./find-task.ts";
import { announceTask, returnToLine } from "./line.ts";

/**
 * What the end of a task means for other tasks: the rest of its run is cancelled, its parent is woken, its children are
 * cancelled. The flows only note that in the batch. Every verb is followed by this, and so is each end in a sweep.
 */
export function followEnds(tx: Tx): void {
  const { endedRuns, relieved, abandoned } = tx.batch;
  for (;;) {
    if (endedRuns.length > 0)
      for (const seq of pendingTasks(tx, endedRuns.shift()!)) cancelIfPending(tx, seq);
    else if (relieved.length > 0) wakeParent(tx, relieved.shift()!);
    else if (abandoned.length > 0) cancelIfPending(tx, abandoned.shift()!);
    else return;
  }
}

function cancelIfPending(tx: Tx, seq: number): void {
  const task = findBySeq(tx, seq);
  if (task && !isEnd(task.place.state)) cancelTask(tx, task);
}

const WAITS_FOR = `
  SELECT signal FROM task CROSS JOIN scheduled
    ON scheduled.queue = task.queue AND scheduled.pos = coalesce(task.pos, task.seq)
  WHERE task.seq = ?`;

/** A child has ended. Its parent continues if it waits for its children, and this was the last of them. */
function wakeParent(tx: Tx, seq: number): void {
  const signal = tx.get<{ signal: string | null }>(WAITS_FOR, seq)?.signal ?? "";
  if (!isChildrenSignal(signal) || awaitsChildren(tx, seq, signal)) return;
  const parent = findBySeq(tx, seq)!;
  announceTask(tx, "task.signalled", parent, { detail: signal });
  takeOut(tx, parent);
  returnToLine(tx, parent, { delay: 0 });
}
