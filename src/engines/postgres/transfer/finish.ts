import type { Connection } from "../connection/connection.ts";
import { insertRows } from "./rows.ts";

const HEADLESS = `
  SELECT DISTINCT ON (waiting.queue, waiting.group_key) waiting.queue, waiting.group_key, pos, rank, task, failures,
    EXISTS (SELECT 1 FROM dibs.gate WHERE gate.queue = waiting.queue) AS limited
  FROM dibs.waiting LEFT JOIN dibs.lane ON lane.queue = waiting.queue AND lane.group_key = waiting.group_key
  WHERE coalesce(lane.holders, 0) = 0 AND lane.wake_at IS NULL
  ORDER BY waiting.queue, waiting.group_key, pos`;
const PROMOTE = `
  WITH gone AS (
    DELETE FROM dibs.waiting WHERE queue = $1 AND group_key = $2 AND pos = $3 RETURNING pos, task, queue, rank, failures
  ), ready AS (
    INSERT INTO dibs.ready (pos, task, queue, rank, failures, special) SELECT pos, task, queue, rank, failures, true FROM gone
  ), lane AS (
    INSERT INTO dibs.lane (queue, group_key) VALUES ($1, $2)
  )
  UPDATE dibs.depth SET ready = ready + 1, waiting = waiting - 1 WHERE queue = $1`;

interface HeadlessRow {
  queue: number;
  group_key: string;
  pos: number;
  limited: boolean;
}

/**
 * Completes an import, for transfer.ts. A group may have waiting tasks and no head: its first task is promoted, or, in a
 * queue with limits, its lane is due for the next sweep. Removes the floors, so that claims read all imported tasks.
 */
export async function finishGroups(link: Connection): Promise<void> {
  const rows = await link.all<HeadlessRow>(HEADLESS);
  for (const { queue, group_key: key, pos, limited } of rows)
    if (!limited) await link.all(PROMOTE, queue, key, pos);
  await insertRows(
    link,
    "lane",
    rows
      .filter(({ limited }) => limited)
      .map(({ queue, group_key }) => ({ queue, group_key, holders: 0, wake_at: 0 })),
    `ON CONFLICT (queue, group_key) DO UPDATE SET wake_at = 0`,
  );
  await link.exec(`DELETE FROM dibs.floor`);
}
