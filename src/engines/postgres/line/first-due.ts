import { BOUNDS } from "../../../engine/engine.ts";
import type { Tx } from "../transaction/tx.ts";

/** What of a kind that time brings a sweep deals with: the first of it, and of that what is free. */

interface OfQueue {
  queue: number;
  group_key: string | null;
}

/** To be said where `$3` are the queues whose gates others have: a task without a group needs none. */
export const butForBusy = (queue: string, groupKey: string): string =>
  `(${groupKey} IS NULL OR ${queue} <> ALL ($3::int4[]))`;

/** Of a statement that is given the time, how many, and what it is to leave out; `among` picks those that are free in other ways. */
export async function firstDue<Row extends OfQueue>(
  tx: Tx,
  sql: string,
  at: number,
  among: (rows: Row[]) => Promise<Row[]> | Row[] = (rows) => rows,
): Promise<Row[]> {
  const rows = await among(await firstFree<Row>(tx, (busy) => tx.all<Row>(sql, at, BOUNDS.sweep, busy)));
  noteMoreDue(tx, rows);
  return rows;
}

/** Only what was dealt with makes room for more: to look again at once for what others have in hand would be to wait without a pause. */
export function noteMoreDue(tx: Tx, dealtWith: readonly unknown[]): void {
  if (dealtWith.length === BOUNDS.sweep) tx.batch.noteMoreDue();
}

/**
 * Up to as many as one sweep deals with. Whoever has a gate may have it for long, where it waits for a transaction of a
 * caller's: what is behind as many of its tasks as were asked for is asked for once more, without these.
 */
export async function firstFree<Row extends OfQueue>(
  tx: Tx,
  find: (busy: number[]) => Promise<Row[]>,
): Promise<Row[]> {
  const busy = new Set<number>();
  for (;;) {
    const rows = await find([...busy]);
    const free = await withGates(tx, rows);
    if (free.length === rows.length || rows.length < BOUNDS.sweep) return free;
    const known = busy.size;
    const isFree = new Set(free);
    for (const row of rows) if (!isFree.has(row)) busy.add(row.queue);
    if (busy.size === known) return free;
  }
}

/**
 * Those of which nobody else has the gate: what others are about to change they look at themselves, or the next sweep does.
 * A group's gate is needed to move a task of it.
 */
export async function withGates<Row extends OfQueue>(tx: Tx, rows: Row[]): Promise<Row[]> {
  await tx.queues.load(rows.map(({ queue }) => queue));
  const known = rows.filter(({ queue }) => tx.queues.ifAny(queue));
  if (!tx.queues.hasLimits) return known;
  const free = new Map<number, boolean>();
  for (const { queue: id, group_key: key } of known) {
    const queue = tx.queues.of(id);
    if (key === null || !queue.limited || free.has(id)) continue;
    free.set(id, await tx.limits.tryToHold(queue));
  }
  return known.filter(({ queue, group_key: key }) => key === null || free.get(queue) !== false);
}

/** Those that are of no run that somebody else holds: to end a task takes its run. */
export async function withRuns<Row extends { task: number }>(tx: Tx, rows: Row[]): Promise<Row[]> {
  const busy = await tx.runs.tryToHold(rows.map(({ task }) => task));
  return busy.size === 0 ? rows : rows.filter(({ task }) => !busy.has(task));
}
