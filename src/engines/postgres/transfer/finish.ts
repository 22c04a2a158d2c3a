import type { Connection } from "../connection/connection.ts";
import { promoteImported } from "../line/enter-line.ts";
import { insertRows } from "../statements/insert-rows.ts";

/** The last step of an import. */

const HEADLESS = `
  SELECT DISTINCT ON (waiting.queue, waiting.group_key) waiting.queue, waiting.group_key, pos, rank, task, failures,
    EXISTS (SELECT 1 FROM dibs.gate WHERE gate.queue = waiting.queue) AS limited
  FROM dibs.waiting LEFT JOIN dibs.lane ON lane.queue = waiting.queue AND lane.group_key = waiting.group_key
  WHERE coalesce(lane.holders, 0) = 0 AND lane.wake_at IS NULL
  ORDER BY waiting.queue, waiting.group_key, pos`;

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
    if (!limited) await promoteImported(link, { queue, groupKey: key, pos });
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
