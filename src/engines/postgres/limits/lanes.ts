import { deleteEach, lookUp } from "../statements/look-up.ts";
import type { InsertPlace } from "../transaction/insert-order.ts";
import type { TransitionTask } from "../line/line.ts";
import type { Tx } from "../transaction/tx.ts";

/** Lanes of groups: which tasks become heads in a queue without limits, and statements on lanes that limits.ts shares. */

export interface Lane {
  queue: number;
  groupKey: string;
}

/** The lanes of laneColumns, in one order everywhere. */
export const LISTED_LANES = `
    SELECT queue, group_key FROM unnest($1::int4[], $2::text[]) AS lane (queue, group_key)
    ORDER BY queue, group_key COLLATE "C"`;
/** WHERE clause that finds the row of a lane of the list `wanted`. */
export const IS_LISTED = `lane.queue = wanted.queue AND lane.group_key = wanted.group_key COLLATE "C"`;

// Inserts the lanes that do not exist, and locks the others FOR SHARE. In one order everywhere (insert-order.ts).
const TAKE = `
  WITH wanted AS MATERIALIZED (${LISTED_LANES}
  ), taken AS (
    INSERT INTO dibs.lane (queue, group_key) SELECT queue, group_key FROM wanted
    ON CONFLICT DO NOTHING RETURNING queue, group_key
  ), behind AS (
    SELECT lane.queue, lane.group_key FROM wanted CROSS JOIN LATERAL (
      SELECT queue, group_key FROM dibs.lane WHERE ${IS_LISTED} OFFSET 0 FOR SHARE) AS lane)
  SELECT queue, group_key, true AS taken FROM taken UNION ALL SELECT queue, group_key, false FROM behind`;

/** The existing rows of the listed lanes, in the order of the list; locked if asked. */
export const lanesListed = (lock?: "FOR UPDATE SKIP LOCKED"): string =>
  `(${LISTED_LANES}) AS wanted CROSS JOIN ${lookUp("lane", IS_LISTED, lock ? { lock } : {})}`;

/** The caller has locked all of them. */
export const DELETE_LANES = deleteEach("lane", `(${LISTED_LANES}) AS wanted`, IS_LISTED);

export interface LaneRow {
  queue: number;
  group_key: string;
}

/**
 * Takes the groups that have no head. The lanes of the others are locked until the commit, so that the end of a head
 * finds the tasks that this transaction adds behind it. Each group is given once.
 */
export async function takeLanes(tx: Tx, lanes: Lane[]): Promise<{ taken: Lane[] }> {
  // Their heads have ended in this batch, and no task was waiting.
  const taken = lanes.filter((lane) => tx.batch.idleLanes.delete(laneName(lane)));
  let open = taken.length > 0 ? lanes.filter((lane) => !taken.includes(lane)) : lanes;
  while (open.length > 0) {
    const answer = await tx.insert(placesOf(open), TAKE, ...laneColumns(open));
    const rows = answer.rows as (LaneRow & { taken: boolean })[];
    for (const row of rows) if (row.taken) taken.push(laneFrom(row));
    // A lane that another transaction inserted or deleted meanwhile is in neither list.
    const known = new Set(rows.map((row) => laneName(laneFrom(row))));
    open = open.filter((lane) => !known.has(laneName(lane)));
  }
  if (taken.length > 0) tx.noteWrite();
  return { taken };
}

/** For the order of inserts. */
export function placesOf(lanes: readonly Lane[]): () => InsertPlace[] {
  return () => lanes.map(({ queue, groupKey }) => ({ kind: "lane", of: queue, name: groupKey }));
}

export function laneName({ queue, groupKey }: Lane): string {
  return `${queue} ${groupKey}`;
}

export function laneFrom(row: LaneRow): Lane {
  return { queue: row.queue, groupKey: row.group_key };
}

export function laneColumns(lanes: readonly Lane[]): [number[], string[]] {
  return [lanes.map(({ queue }) => queue), lanes.map(({ groupKey }) => groupKey)];
}

const INSERT_WAITING = `
  INSERT INTO dibs.waiting (queue, group_key, pos, task, rank, failures) VALUES ($1, $2, $3, $4, $5, $6)`;

/** It waits behind the head of its group, whose lane is locked. */
export function wait(
  tx: Tx,
  task: Pick<TransitionTask, "queue" | "groupKey" | "pos" | "seq" | "rank" | "failures">,
): "waiting" {
  tx.send(INSERT_WAITING, task.queue.id, task.groupKey, task.pos, task.seq, task.rank, task.failures);
  tx.counters.count(task.queue, "waiting", 1);
  return "waiting";
}
