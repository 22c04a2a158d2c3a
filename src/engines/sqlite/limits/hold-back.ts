import { holdGate } from "./gates.ts";
import { wait } from "./lanes.ts";
import { type Held, watchTtl } from "../line/line.ts";
import { changeLane, raiseLanes } from "./move-lanes.ts";
import { findBySeq, takeOut } from "../line/find-task.ts";
import { HEADLESS } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * No task of its group starts for `delay`, and tasks of the group leave the line. Without a group, this holds for the
 * whole queue. The task is no longer a head of its group.
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

/** It leaves the line and waits again. */
export function removeFromLine(tx: Tx, seq: number): void {
  const task = findBySeq(tx, seq)!;
  takeOut(tx, task);
  wait(tx, task);
  watchTtl(tx, task);
}
