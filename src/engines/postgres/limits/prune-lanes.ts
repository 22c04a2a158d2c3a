import { isOver, type Meter, NO_METER } from "../../../core/queue/rate.ts";
import { newest } from "../statements/newest.ts";
import type { Tx } from "../transaction/tx.ts";
import { DELETE_LANES } from "./lanes.ts";

/** Lanes that one call reads. A lane that stores nothing costs only its row. */
const LANES = 10_000;

// Lanes without heads, wake time, hold and live sticky worker.
const IDLE_LANES = `
  SELECT queue, group_key, meter FROM dibs.lane
  WHERE (queue, group_key) > ($1, $2::text) AND holders = 0 AND wake_at IS NULL AND coalesce(held_until, 0) <= $3
    AND NOT EXISTS (SELECT 1 FROM dibs.session WHERE ${newest("session", "lane.session")})
  ORDER BY queue, group_key LIMIT $4 FOR UPDATE SKIP LOCKED`;

/**
 * Deletes lanes that have nothing to store any more: also the windows of their rates are over. `prune` calls it. Each call
 * continues where the last one stopped.
 */
export async function pruneLanes(tx: Tx): Promise<void> {
  tx.limits.reread();
  const rows = await tx.all<{ queue: number; group_key: string; meter: string | null }>(
    IDLE_LANES,
    ...[tx.progress.prunedTo.queue, tx.progress.prunedTo.key],
    tx.now,
    LANES,
  );
  await tx.queues.load(rows.map(({ queue }) => queue));
  const last = rows.length < LANES ? undefined : rows.at(-1)!;
  tx.progress.prunedTo = last ? { queue: last.queue, key: last.group_key } : { queue: 0, key: "" };
  const held = new Map<number, boolean>();
  const doomed: typeof rows = [];
  for (const row of rows) {
    const queue = tx.queues.ifAny(row.queue);
    if (!queue) continue;
    if (!held.has(row.queue)) held.set(row.queue, await tx.limits.tryToHold(queue));
    const meter = row.meter === null ? NO_METER : (JSON.parse(row.meter) as Meter);
    if (held.get(row.queue) && isOver(meter, tx.now)) doomed.push(row);
  }
  if (doomed.length === 0) return;
  tx.send(
    DELETE_LANES,
    doomed.map((row) => row.queue),
    doomed.map((row) => row.group_key),
  );
}
