import { isDeepStrictEqual } from "node:util";
import { keepEnds } from "../flows/runs.ts";
import { type By, deleteEach, lookUp } from "../statements/look-up.ts";
import { numbers, toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";
import type { Line } from "./enter-line.ts";
import { findBySeq, type Found, isPending } from "./find-task.ts";

/**
 * Takes tasks out of their states, or locks them there. It is the first half of most transitions: cancel, change, purge,
 * expiry, signal. It does not free groups.
 */

/** A table whose rows are tasks in a state. */
type Spot = Line | "claim" | "scheduled" | "waiting" | "verifying" | "dead" | "ended";

/** How the rows of a list of tasks are found. `keysOf` returns the list. */
interface Rows {
  list: string;
  by: By;
  /** The row must be as it was found: the task may have left meanwhile, and come back. */
  also?: string;
  /** Rows are locked in the order of the table's key, as everywhere. */
  order: string;
}

const IN_LINE: Rows = {
  list: `unnest($1::int4[], $2::int2[], $3::int8[]) AS wanted (queue, rank, pos)`,
  by: { queue: "wanted.queue", rank: "wanted.rank", pos: "wanted.pos" },
  order: "queue, rank, pos",
};
const BY_TASK: Rows = {
  list: `unnest($1::int8[]) AS wanted (task)`,
  by: { task: "wanted.task" },
  order: "task",
};
const ROWS: Record<Spot, Rows> = {
  ready: IN_LINE,
  ready_elsewhere: IN_LINE,
  ready_sticky: IN_LINE,
  claim: {
    list: `unnest($1::int8[], $2::int8[]) AS wanted (task, fence)`,
    by: `claim.task = wanted.task AND claim.fence = wanted.fence`,
    order: "task",
  },
  scheduled: {
    list: `unnest($1::int4[], $2::int8[], $3::int8[], $4::text[]) AS wanted (queue, pos, due, signal)`,
    by: { queue: "wanted.queue", pos: "wanted.pos" },
    also: `scheduled.due IS NOT DISTINCT FROM wanted.due AND scheduled.signal IS NOT DISTINCT FROM wanted.signal`,
    order: "queue, pos",
  },
  waiting: {
    list: `unnest($1::int4[], $2::text[], $3::int8[]) AS wanted (queue, group_key, pos)`,
    by: `waiting.queue = wanted.queue AND waiting.group_key = wanted.group_key COLLATE "C" AND waiting.pos = wanted.pos`,
    order: `queue, group_key COLLATE "C", pos`,
  },
  verifying: {
    list: `unnest($1::int8[], $2::int8[]) AS wanted (task, fence)`,
    by: { task: "wanted.task" },
    also: `verifying.fence = wanted.fence`,
    order: "task",
  },
  dead: BY_TASK,
  ended: BY_TASK,
};

type LockMode = "FOR UPDATE NOWAIT" | "FOR UPDATE SKIP LOCKED";
const each = <T>(of: (spot: Spot, rows: Rows) => T): Record<Spot, T> =>
  Object.fromEntries(Object.entries(ROWS).map(([spot, rows]) => [spot, of(spot as Spot, rows)])) as Record<
    Spot,
    T
  >;
const lockOf =
  (lock: LockMode) =>
  (spot: Spot, { list, by, also, order }: Rows): string =>
    `
  SELECT ${spot}.task FROM (SELECT * FROM ${list} ORDER BY ${order}) AS wanted
  CROSS JOIN ${lookUp(spot, by, { columns: "task", lock, ...(also !== undefined && { also }) })}`;
const LOCK_ALL = each(lockOf("FOR UPDATE NOWAIT"));
const LOCK_FREE = each(lockOf("FOR UPDATE SKIP LOCKED"));
const DELETE = each((spot, { list, by, also }) => deleteEach(spot, list, by, also));
const DELETE_STEPPED_ASIDE = `DELETE FROM dibs.stepped_aside WHERE task = ANY ($1::int8[])`;
const UNWATCH = deleteEach(
  "ttl",
  `unnest($1::int8[], $2::int8[]) AS wanted (expires_at, task)`,
  `ttl.expires_at = wanted.expires_at AND ttl.task = wanted.task`,
);
const LOCK_CLAIM = `SELECT cancelled FROM dibs.claim WHERE task = $1 AND fence = $2 FOR UPDATE SKIP LOCKED`;

function spotOf({ place }: Found): Spot {
  switch (place.state) {
    case "claimed":
      return "claim";
    case "ready":
      return place.table;
    case "parked":
      return "scheduled";
    case "done":
    case "cancelled":
    case "expired":
      return "ended";
    default:
      return place.state;
  }
}

function keysOf(spot: Spot, tasks: readonly Found[]): (string | (string | null)[])[] {
  const queues = numbers(tasks.map(({ queue }) => queue.id));
  const positions = numbers(tasks.map(({ pos }) => pos));
  switch (spot) {
    case "ready":
    case "ready_elsewhere":
    case "ready_sticky":
      return [queues, numbers(tasks.map(({ rank }) => rank)), numbers(tasks.map(positionInLine))];
    case "scheduled":
      return [queues, positions, numbers(tasks.map(dueOf)), tasks.map(signalOf)];
    case "waiting":
      return [queues, tasks.map(({ groupKey }) => groupKey), positions];
    case "claim":
    case "verifying":
      return [seqsOf(tasks), numbers(tasks.map(fenceOf))];
    default:
      return [seqsOf(tasks)];
  }
}

function positionInLine({ place, pos }: Found): number {
  return place.state === "ready" ? place.pos : pos;
}

function dueOf({ place }: Found): number {
  return "due" in place ? place.due : 0;
}

/** The signal that it waits for, as stored. */
function signalOf({ place }: Found): string | null {
  return place.state === "parked" ? toText(place.signal) : null;
}

function fenceOf({ place }: Found): number {
  return "held" in place ? place.held.fence : 0;
}

function seqsOf(tasks: readonly Found[]): string {
  return numbers(tasks.map(({ seq }) => seq));
}

/** Locks a claim until the commit; undefined if the claim is gone. */
export async function lockClaim(
  tx: Tx,
  seq: number,
  fence: number,
): Promise<{ cancelled: boolean } | undefined> {
  return tx.lockOne<{ cancelled: boolean }>(LOCK_CLAIM, seq, fence);
}

/** Locks the row of a task in its state until the commit. False if the task has moved since it was found. */
export async function lockPlace(tx: Tx, task: Found): Promise<boolean> {
  const spot = spotOf(task);
  return (await tx.lockOne(LOCK_FREE[spot], ...keysOf(spot, [task]))) !== undefined;
}

/** Takes a task out of its state. False if another transaction did so first. */
export async function takeOut(tx: Tx, task: Found): Promise<boolean> {
  if (!(await lockPlace(tx, task))) return false;
  leave(tx, [task]);
  return true;
}

/**
 * Takes tasks out of their states, with one statement for each state. Tasks that have moved meanwhile, and claimed
 * ones, are `missed`. Both lists are in the given order.
 */
export async function takeTogether(
  tx: Tx,
  found: readonly Found[],
): Promise<{ taken: Found[]; missed: Found[] }> {
  const seqs = new Set<number>();
  for (const [spot, tasks] of Map.groupBy(found, spotOf)) {
    if (spot === "claim") continue;
    for (const { task } of await tx.lock<{ task: number }>(LOCK_ALL[spot], keysOf(spot, tasks)))
      seqs.add(task);
  }
  const taken = found.filter(({ seq }) => seqs.has(seq));
  leave(tx, taken);
  return { taken, missed: found.filter(({ seq }) => !seqs.has(seq)) };
}

/** They leave their states, in which their rows are locked. */
function leave(tx: Tx, tasks: readonly Found[]): void {
  for (const [spot, some] of Map.groupBy(tasks, spotOf)) {
    if (spot === "ended")
      keepEnds(
        tx,
        some.map(({ seq }) => seq),
      );
    tx.send(DELETE[spot], ...keysOf(spot, some));
  }
  for (const { queue, place, groupKey } of tasks) {
    tx.counters.count(queue, place.state, -1);
    if (place.state === "ready") tx.limits.movedInLine(queue, groupKey, -1);
  }
  const aside = tasks.filter(
    ({ place, groupKey, blocksGroup }) => place.state === "verifying" && groupKey !== null && !blocksGroup,
  );
  if (aside.length > 0) tx.send(DELETE_STEPPED_ASIDE, seqsOf(aside));
  const mortal = tasks.filter((task) => task.expiresAt !== null && isPending(task));
  if (mortal.length > 0) tx.send(UNWATCH, numbers(mortal.map((task) => task.expiresAt!)), seqsOf(mortal));
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
    const spot = spotOf(task);
    if (await tx.get(LOCK_FREE[spot], ...keysOf(spot, [task]))) {
      leave(tx, [task]);
      return task;
    }
    const now: Found | undefined = await findBySeq(tx, task.seq);
    // It has not moved, so another transaction holds it.
    if (now && isDeepStrictEqual(now.place, task.place)) return undefined;
    task = now;
  }
  return undefined;
}
