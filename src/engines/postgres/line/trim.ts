import { dropsOldest, surplusOf } from "../../../core/task/add-rules.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import { TASK_OF } from "../statements/look-up.ts";
import { aboveFloor } from "./floors.ts";
import { findMany } from "./find-task.ts";
import { end } from "./line.ts";
import { takeFree } from "./take-out.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Drops the oldest tasks of a full queue, after an add. */

const SIZE = `coalesce(octet_length(data), 0) + coalesce(octet_length(bytes), 0)`;
const READY_BYTES = `
  SELECT coalesce(sum(${SIZE}), 0)::int8 AS bytes FROM dibs.ready CROSS JOIN ${TASK_OF("ready", "data, bytes")}
  WHERE ready.queue = $1 AND ${aboveFloor("$1")}`;
const LOWEST = `SELECT rank FROM dibs.ready WHERE queue = $1 AND ${aboveFloor("$1")} ORDER BY rank DESC LIMIT 1`;
const OLDEST = `
  SELECT ready.task, ${SIZE} AS bytes FROM dibs.ready CROSS JOIN ${TASK_OF("ready", "data, bytes")}
  WHERE ready.queue = $1 AND ready.rank = $2::int2 AND ${aboveFloor("$1")} ORDER BY ready.pos LIMIT $3`;

/**
 * After an add to a full queue: drops its oldest ready tasks, those of the lowest priority first. What another
 * transaction has locked is left to the next add.
 */
export async function trim(tx: Tx, queue: Queue, added: number): Promise<void> {
  const { policy } = queue;
  if (!dropsOldest(policy)) return;
  let surplus = surplusOf(await tx.counters.depth(queue), policy);
  let bytes = policy.maxBytes === null ? 0 : (await readyBytes(tx, queue)) - policy.maxBytes;
  let left = Math.max(added, BOUNDS.sweep);
  while (left > 0 && (surplus > 0 || bytes > 0)) {
    const lowest = await tx.get<{ rank: number }>(LOWEST, queue.id);
    if (!lowest) return;
    const limit = bytes > 0 ? left : Math.min(surplus, left);
    const rows = await tx.all<{ task: number; bytes: number }>(OLDEST, queue.id, lowest.rank, limit);
    const chosen = new Map<number, number>();
    for (const row of rows) {
      if (surplus <= 0 && bytes <= 0) break;
      surplus--;
      left--;
      bytes -= row.bytes;
      chosen.set(row.task, row.bytes);
    }
    let dropped = 0;
    for (const found of await findMany(tx, [...chosen.keys()])) {
      const task = await takeFree(tx, found);
      if (!task) continue;
      await end(tx, task, "expired", "dropped");
      dropped++;
    }
    if (dropped < rows.length) return;
  }
}

export async function readyBytes(tx: Tx, queue: Queue): Promise<number> {
  return (await tx.get<{ bytes: number }>(READY_BYTES, queue.id))!.bytes;
}
