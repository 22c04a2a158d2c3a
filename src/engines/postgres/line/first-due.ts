import { BOUNDS } from "../../../engine/bounds.ts";
import type { Tx } from "../transaction/tx.ts";

/** Selects what one sweep processes of a kind of due rows: the earliest ones that no other transaction holds. */

interface OfQueue {
  queue: number;
  group_key: string | null;
}

/** Condition where `$3` are the queues whose gates other transactions hold. A task without a group needs no gate. */
export const butForBusy = (queue: string, groupKey: string): string =>
  `(${groupKey} IS NULL OR ${queue} <> ALL ($3::int4[]))`;

/** Runs a statement that gets the time, a limit and the queues to leave out. `among` filters its rows further. */
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

/**
 * Counts only rows that were processed. Rows that another transaction holds would make the next sweep start at once,
 * without a pause.
 */
export function noteMoreDue(tx: Tx, dealtWith: readonly unknown[]): void {
  if (dealtWith.length === BOUNDS.sweep) tx.batch.noteMoreDue();
}

/**
 * At most as many rows as one sweep processes. A transaction may hold a gate for long while it waits for a caller's
 * transaction. If rows of that queue filled the page, the statement is repeated without the queue.
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
 * Leaves out rows whose queue's gate another transaction holds: that transaction, or the next sweep, processes them. To
 * move a task of a group, its gate is needed.
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

/** Leaves out tasks whose run another transaction holds: the end of a task changes its run. */
export async function withRuns<Row extends { task: number }>(tx: Tx, rows: Row[]): Promise<Row[]> {
  const busy = await tx.runs.tryToHold(rows.map(({ task }) => task));
  return busy.size === 0 ? rows : rows.filter(({ task }) => !busy.has(task));
}
