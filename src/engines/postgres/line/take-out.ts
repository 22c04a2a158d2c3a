import { isDeepStrictEqual } from "node:util";
import { DELETE_STEPPED_ASIDE, removeClaim, unwatchTtl } from "./line.ts";
import { isRowBy, rowsBy } from "../statements/look-up.ts";
import { type Line, LINE_KEY } from "./enter-line.ts";
import { findBySeq, type Found, isPending, type Place } from "./find-task.ts";
import { keepEnds } from "../flows/runs.ts";
import { toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Takes a task out of its state, or locks it there. It is the first half of most transitions: cancel, change, purge,
 * expiry, signal. Rows that another transaction holds are skipped, never waited for.
 */

const IN_LINE = (words: (table: Line) => string): Record<Line, string> => ({
  ready: words("ready"),
  ready_elsewhere: words("ready_elsewhere"),
  ready_sticky: words("ready_sticky"),
});
const DELETE_IN_LINE = IN_LINE((table) => `DELETE FROM dibs.${table} WHERE ${isRowBy(table, LINE_KEY)}`);
// The row must be as it was found: a task that was claimed meanwhile may be scheduled again at the same position.
const AS_FOUND = "due IS NOT DISTINCT FROM $3 AND signal IS NOT DISTINCT FROM $4";
export const IN_SCHEDULE = { queue: "$1", pos: "$2::int8" };
const FREE = { columns: "ctid", lock: "FOR UPDATE SKIP LOCKED" } as const;
const FREE_IN_LINE = IN_LINE(
  (table) => `DELETE FROM dibs.${table} WHERE ctid = ANY (ARRAY ${rowsBy(table, LINE_KEY, FREE)})`,
);
const FREE_SCHEDULED = `
  DELETE FROM dibs.scheduled WHERE ctid = ANY (ARRAY ${rowsBy("scheduled", IN_SCHEDULE, { ...FREE, also: AS_FOUND })})`;
const FREE_WAITING = `
  DELETE FROM dibs.waiting WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM dibs.waiting WHERE queue = $1 AND group_key = $2 AND pos = $3 FOR UPDATE SKIP LOCKED))`;
const DELETE_SCHEDULED = `DELETE FROM dibs.scheduled WHERE ${isRowBy("scheduled", IN_SCHEDULE)}`;
const DELETE_WAITING = `DELETE FROM dibs.waiting WHERE queue = $1 AND group_key = $2 AND pos = $3`;
const DELETE_ENDED = `DELETE FROM dibs.ended WHERE ${isRowBy("ended", { task: "$1::int8" })}`;
const DELETE_DEAD = `DELETE FROM dibs.dead WHERE ${isRowBy("dead", { task: "$1::int8" })}`;
const DELETE_VERIFYING = `DELETE FROM dibs.verifying WHERE ${isRowBy("verifying", { task: "$1::int8" })}`;
const LOCK_CLAIM = `SELECT cancelled FROM dibs.claim WHERE task = $1 AND fence = $2 FOR UPDATE SKIP LOCKED`;
const ROW = { columns: "1", lock: "FOR UPDATE SKIP LOCKED" } as const;
const LOCK_VERIFYING = rowsBy("verifying", { task: "$1::int8" }, { ...ROW, also: "fence = $2" });
const LOCK_IN_LINE = IN_LINE((table) => rowsBy(table, LINE_KEY, ROW));
const LOCK_SCHEDULED = rowsBy("scheduled", IN_SCHEDULE, { ...ROW, also: AS_FOUND });
const LOCK_WAITING = `SELECT 1 FROM dibs.waiting WHERE queue = $1 AND group_key = $2 AND pos = $3 FOR UPDATE SKIP LOCKED`;
const LOCK_DEAD = rowsBy("dead", { task: "$1::int8" }, ROW);
const LOCK_ENDED = rowsBy("ended", { task: "$1::int8" }, ROW);

/** Locks a claim until the commit; undefined if the claim is gone. */
export async function lockClaim(
  tx: Tx,
  seq: number,
  fence: number,
): Promise<{ cancelled: boolean } | undefined> {
  return tx.lockOne<{ cancelled: boolean }>(LOCK_CLAIM, seq, fence);
}

/** The signal that it waits for, as stored. */
export function signalOf(place: Place): string | null {
  return place.state === "parked" ? toText(place.signal) : null;
}

/** Locks the row of a task in its state until the commit. False if the task has moved since it was found. */
export async function lockPlace(tx: Tx, task: Found): Promise<boolean> {
  return (await lockedRow(tx, task)) !== undefined;
}

function lockedRow(tx: Tx, { seq, queue, rank, pos, groupKey, place }: Found): Promise<unknown> {
  switch (place.state) {
    case "claimed":
      return tx.lockOne(LOCK_CLAIM, seq, place.held.fence);
    case "verifying":
      return tx.lockOne(LOCK_VERIFYING, seq, place.held.fence);
    case "ready":
      return tx.lockOne(LOCK_IN_LINE[place.table], queue.id, rank, place.pos);
    case "scheduled":
    case "parked":
      return tx.lockOne(LOCK_SCHEDULED, queue.id, pos, place.due, signalOf(place));
    case "waiting":
      return tx.lockOne(LOCK_WAITING, queue.id, groupKey, pos);
    case "dead":
      return tx.lockOne(LOCK_DEAD, seq);
    default:
      return tx.lockOne(LOCK_ENDED, seq);
  }
}

/** Takes a task out of its state. False if another transaction did so first. It does not free the group. */
export async function takeOut(tx: Tx, task: Found): Promise<boolean> {
  if (!(await lockPlace(tx, task))) return false;
  if (task.place.state === "claimed") removeClaim(tx, task);
  else {
    deleteFrom(tx, task);
    noteTakenOut(tx, task);
  }
  return true;
}

function noteTakenOut(tx: Tx, task: Found): void {
  const { place } = task;
  if (place.state === "ready") tx.limits.movedInLine(task.queue, task.groupKey, -1);
  if (place.state === "verifying" && task.groupKey !== null && !task.blocksGroup)
    tx.send(DELETE_STEPPED_ASIDE, task.seq);
  tx.counters.count(task.queue, place.state, -1);
  if (isPending(task)) unwatchTtl(tx, task.seq, task.expiresAt);
}

/** Its row is locked. */
function deleteFrom(tx: Tx, { seq, queue, rank, pos, groupKey, place }: Found): void {
  switch (place.state) {
    case "ready":
      return tx.send(DELETE_IN_LINE[place.table], queue.id, rank, place.pos);
    case "scheduled":
    case "parked":
      return tx.send(DELETE_SCHEDULED, queue.id, pos);
    case "verifying":
      return tx.send(DELETE_VERIFYING, seq);
    case "waiting":
      return tx.send(DELETE_WAITING, queue.id, groupKey, pos);
    case "dead":
      return tx.send(DELETE_DEAD, seq);
    default:
      keepEnds(tx, [seq]);
      return tx.send(DELETE_ENDED, seq);
  }
}

/**
 * Takes a pending task out of its state, wherever it is now: the end of another task may have promoted it. Undefined if
 * it is claimed or has ended.
 */
export async function takePending(tx: Tx, found: Found): Promise<Found | undefined> {
  let task: Found | undefined = found;
  while (task && isPending(task)) {
    if (await takeOut(tx, task)) return task;
    task = await findBySeq(tx, task.seq);
  }
  return undefined;
}

/** As `takePending`, for a sweep, which waits for no lock: undefined also if another transaction holds the task. */
export async function takeFree(tx: Tx, found: Found): Promise<Found | undefined> {
  let task: Found | undefined = found;
  while (task && isPending(task)) {
    if ((await deleteFree(tx, task)) > 0) {
      noteTakenOut(tx, task);
      return task;
    }
    const now: Found | undefined = await findBySeq(tx, task.seq);
    // It has not moved, so another transaction holds it.
    if (now && isDeepStrictEqual(now.place, task.place)) return undefined;
    task = now;
  }
  return undefined;
}

function deleteFree(tx: Tx, { queue, rank, pos, groupKey, place }: Found): Promise<number> {
  switch (place.state) {
    case "ready":
      return tx.run(FREE_IN_LINE[place.table], queue.id, rank, place.pos);
    case "scheduled":
    case "parked":
      return tx.run(FREE_SCHEDULED, queue.id, pos, place.due, signalOf(place));
    default:
      return tx.run(FREE_WAITING, queue.id, groupKey, pos);
  }
}
