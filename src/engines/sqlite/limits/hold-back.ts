import { holdGate } from "./gates.ts";
import { wait } from "./lanes.ts";
import { type Held, watchTtl } from "../line/line.ts";
import { changeLane, raiseLanes } from "./move-lanes.ts";
import { findBySeq, takeOut } from "../line/find-task.ts";
import { HEADLESS, type Tx } from "../transaction/tx.ts";

/**
 * For `delay` none of its group starts, and none that stands in line either; of its whole queue, where it has no group. The
 * task itself holds its group no longer.
 */
export function holdBack(tx: Tx, task: Held, delay: number): void {
  const { queue, groupKey } = task;
  if (groupKey === null) return holdGate(tx, queue, delay);
  raiseLanes(tx, queue, HEADLESS);
  const inLine = changeLane(tx, queue, groupKey, (lane) => {
    lane.holders -= lane.line.length + 1;
    lane.heldUntil = Math.max(lane.heldUntil, tx.now + delay);
    return lane.line;
  });
  for (const seq of inLine) removeFromLine(tx, seq);
  task.blocksGroup = false;
}

/** Out of the line again: it waits for its turn. */
export function removeFromLine(tx: Tx, seq: number): void {
  const task = findBySeq(tx, seq)!;
  takeOut(tx, task);
  wait(tx, task);
  watchTtl(tx, task);
}
