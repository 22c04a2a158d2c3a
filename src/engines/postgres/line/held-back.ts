import { heldBackBy, heldBackByGroups } from "../../../core/queue/held-back.ts";
import { fromRank, type HeldBack } from "../../../core/task/task.ts";
import { type Meter, NO_METER } from "../../../core/queue/rate.ts";
import { aboveFloor } from "./floors.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { newest } from "../statements/newest.ts";
import type { Tx } from "../transaction/tx.ts";

// The head of the first line that has tasks decides: `ready`, then `ready_elsewhere`, then `ready_sticky`.
const LOOK = `
  SELECT first.rank, task.cost, gate.meter, gate.held_until,
    (SELECT count(*) FROM dibs.claim WHERE claim.queue = $1 AND counted)::int4 AS running,
    CASE WHEN first.task IS NULL THEN (
      SELECT wake_at FROM dibs.lane WHERE lane.queue = $1 AND wake_at IS NOT NULL ORDER BY wake_at LIMIT 1) END AS wake_at
  FROM dibs.gate LEFT JOIN (
    SELECT task, rank FROM (
      (SELECT 0 AS standing, task, rank FROM dibs.ready WHERE queue = $1 AND ${aboveFloor("$1")} ORDER BY rank, pos LIMIT 1)
      UNION ALL
      (SELECT 1, task, rank FROM dibs.ready_elsewhere WHERE queue = $1 AND ${aboveFloor("$1", "ready_elsewhere")} ORDER BY rank, pos LIMIT 1)
      UNION ALL
      (SELECT 2, task, rank FROM dibs.ready_sticky WHERE queue = $1 ORDER BY rank, pos LIMIT 1)
    ) AS line ORDER BY standing LIMIT 1
  ) AS first ON true LEFT JOIN dibs.task ON task.seq = first.task
  WHERE ${newest("gate", "$1")}`;

interface LookRow {
  rank: number | null;
  cost: number | null;
  meter: string | null;
  held_until: number | null;
  running: number;
  wake_at: number | null;
}

/** Why no task of a queue may start; null if one may, or the queue has no limits. */
export async function heldBack(tx: Tx, queue: Queue): Promise<HeldBack | null> {
  if (!queue.limited) return null;
  tx.limits.flush();
  const row = await tx.get<LookRow>(LOOK, queue.id);
  if (!row) return null;
  if (row.rank === null) return heldBackByGroups(row.wake_at, tx.now);
  const meter = row.meter === null ? NO_METER : (JSON.parse(row.meter) as Meter);
  const counted = { heldUntil: row.held_until ?? 0, meter, running: row.running };
  const first = { urgent: fromRank(row.rank).urgent, cost: row.cost ?? 1 };
  return heldBackBy(queue.policy, counted, first, tx.now);
}
