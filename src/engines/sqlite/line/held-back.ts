import { heldBackBy, heldBackByGroups } from "../../../core/queue/held-back.ts";
import { isGated } from "../../../core/queue/policy.ts";
import { fromRank, type HeldBack } from "../../../core/task/task.ts";
import { gateOf } from "../limits/gates.ts";
import { costOf } from "../limits/lanes.ts";
import { HEAD_ONLY, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

// The head of the first line that has tasks decides: `ready`, then `ready_elsewhere`, then `ready_sticky`.
const FIRST = [
  `SELECT task, rank FROM ready WHERE queue = ? ORDER BY rank, pos LIMIT 1`,
  `SELECT task, rank FROM ready_elsewhere WHERE queue = ? ORDER BY rank, pos LIMIT 1`,
  `SELECT task, rank FROM ready_sticky WHERE queue = ? ORDER BY rank, pos LIMIT 1`,
] as const;
const WAKE = `SELECT at FROM wake WHERE queue = ? ORDER BY at LIMIT 1`;

/** Why no task of a queue may start; null if one may, or the queue has no limits. */
export function heldBack(tx: Tx, queue: Queue): HeldBack | null {
  if (queue.lanes === HEAD_ONLY && !queue.gate && !isGated(queue.policy)) return null;
  const first = firstInLine(tx, queue);
  if (!first) return heldBackByGroups(tx.get<{ at: number }>(WAKE, queue.id)?.at ?? null, tx.now);
  const counted = { ...gateOf(tx, queue), running: tx.counters.claimed(queue) };
  const { urgent } = fromRank(first.rank);
  return heldBackBy(queue.policy, counted, { urgent, cost: costOf(tx, first.task) }, tx.now);
}

function firstInLine(tx: Tx, queue: Queue): { task: number; rank: number } | undefined {
  for (const sql of FIRST) {
    const first = tx.get<{ task: number; rank: number }>(sql, queue.id);
    if (first) return first;
  }
  return undefined;
}
