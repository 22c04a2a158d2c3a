import { type Lane, laneColumns, laneFrom, laneName, type LaneRow, lanesListed } from "../limits/lanes.ts";
import type { Queue } from "../transaction/known-queues.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Groups of which some are leaving for another store, in queues without limits. While the head is on its way those behind it
 * may leave too; when the last of them is gone, the group goes on here. Two processes may run the same move: whoever has
 * others leave holds the group's row shared until its commit, and whoever asks whether it was the last takes it alone. So
 * neither goes by what the other is about to change. With limits the queue's gate does that.
 */

// In one order everywhere, as in lanes.ts. What is seen of the heads before their rows are locked may be over by then.
const STAND_BEHIND = `
  SELECT lane.queue, lane.group_key
  FROM (
    SELECT DISTINCT group_key FROM dibs.leaving
    WHERE queue = $1 AND holds_group AND EXISTS (
      SELECT 1 FROM dibs.waiting WHERE waiting.queue = $1 AND waiting.group_key = leaving.group_key OFFSET 0)
    ORDER BY group_key LIMIT $2
  ) AS head
  CROSS JOIN LATERAL (
    SELECT queue, group_key FROM dibs.lane
    WHERE lane.queue = $1 AND lane.group_key = head.group_key OFFSET 0 FOR SHARE) AS lane`;

/** The first that have a head on its way, and somebody behind it. Until the commit none of them is found to have nobody else. */
export async function standBehindLeaving(tx: Tx, { id }: Queue, limit: number): Promise<string[]> {
  return (await tx.all<LaneRow>(STAND_BEHIND, id, limit)).map((row) => row.group_key);
}

const LOCK = `SELECT 1 FROM ${lanesListed("FOR UPDATE")}`;
const STILL_LEAVING = `
  SELECT queue, group_key FROM unnest($1::int4[], $2::text[]) AS wanted (queue, group_key)
  WHERE EXISTS (
    SELECT 1 FROM dibs.leaving
    WHERE leaving.queue = wanted.queue AND leaving.group_key = wanted.group_key COLLATE "C" AND holds_group OFFSET 0)`;

/** Of groups from which some have left: those of which nobody else is leaving. */
export async function leftByAll(tx: Tx, lanes: readonly Lane[]): Promise<Lane[]> {
  if (lanes.length === 0) return [];
  await tx.all(LOCK, ...laneColumns(lanes));
  const leaving = await tx.all<LaneRow>(STILL_LEAVING, ...laneColumns(lanes));
  const busy = new Set(leaving.map((row) => laneName(laneFrom(row))));
  return lanes.filter((lane) => !busy.has(laneName(lane)));
}
