import { dropsOldest, surplusOf } from "../../../core/task/add-rules.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import { findBySeq, takeOut } from "./find-task.ts";
import { end } from "./line.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Drops the oldest tasks of a full queue, after an add. */

const READY_BYTES = `
  SELECT coalesce(sum(octet_length(data)), 0) AS bytes FROM ready CROSS JOIN task ON task.seq = ready.task
  WHERE ready.queue = ?`;
const LOWEST = `SELECT rank FROM ready WHERE queue = ? ORDER BY rank DESC LIMIT 1`;
const OLDEST = `
  SELECT task, octet_length(data) AS bytes FROM ready CROSS JOIN task ON task.seq = ready.task
  WHERE ready.queue = ? AND rank = ? ORDER BY ready.pos LIMIT 0 + ?`;

/** After an add to a full queue: drops its oldest ready tasks, those of the lowest priority first. */
export function trim(tx: Tx, queue: Queue, added: number): void {
  const { policy } = queue;
  if (!dropsOldest(policy)) return;
  tx.addBuffer.write();
  let surplus = surplusOf(tx.counters.depth(queue), policy);
  let bytes = policy.maxBytes === null ? 0 : readyBytes(tx, queue) - policy.maxBytes;
  let left = Math.max(added, BOUNDS.sweep);
  while (left > 0 && (surplus > 0 || bytes > 0)) {
    const lowest = tx.get<{ rank: number }>(LOWEST, queue.id);
    if (!lowest) return;
    const limit = bytes > 0 ? left : Math.min(surplus, left);
    for (const row of tx.all<{ task: number; bytes: number }>(OLDEST, queue.id, lowest.rank, limit)) {
      if (surplus <= 0 && bytes <= 0) return;
      surplus--;
      left--;
      bytes -= row.bytes;
      const task = findBySeq(tx, row.task)!;
      takeOut(tx, task);
      end(tx, task, "expired", "dropped");
    }
  }
}

export function readyBytes(tx: Tx, queue: Queue): number {
  tx.addBuffer.write();
  return tx.get<{ bytes: number }>(READY_BYTES, queue.id)!.bytes;
}
