import { createHash } from "node:crypto";
import type { Tx } from "../transaction/tx.ts";

/**
 * The lock order of every transaction that writes:
 *
 * 1. gates of queues with limits, by queue (`gateLock`)
 * 2. the catalogue, shared or alone (`catalogueLock`)
 * 3. rows of `dibs.run`, by id (run-locks.ts)
 * 4. the claim of one task that somebody else settles (take-out.ts)
 * 5. rows of sessions, groups (`dibs.lane`), tasks and keys, each set in the order of its key
 *
 * The first four are waited for only when a transaction begins. Later they are only tried: where another transaction has
 * one, the batch is rolled back and starts again with a wait for it (`LocksNeeded`), and a sweep passes over the task. A
 * transaction that moves a task of a run holds the run before it waits for a row of the task.
 */

/**
 * Advisory locks are numbers that all programs of a database share: ours are hashes of what they are for, so that
 * nobody else's meet them. `int8` in decimal, since a number of JavaScript does not hold 64 bits.
 */
function lockFor(schema: string, what: string): string {
  return createHash("sha256").update(`dibs:${what}:${schema}`).digest().readBigInt64BE(0).toString();
}

const known = new Map<string, string>();

function remembered(schema: string, what: string): string {
  const name = `${what}:${schema}`;
  let lock = known.get(name);
  if (lock === undefined) known.set(name, (lock = lockFor(schema, what)));
  return lock;
}

/** Held by whoever changes the schema. */
export function migrationLock(schema: string): string {
  return remembered(schema, "migration");
}

/**
 * Held shared by every transaction that writes; alone by the one that removes a queue, or changes what others go by
 * (exclusive.ts), or raises floors (floors.ts).
 */
export function catalogueLock(schema: string): string {
  return remembered(schema, "catalogue");
}

/** Held by whoever gives out numbers of events, until they are committed. */
export function eventLock(schema: string): string {
  return remembered(schema, "event");
}

/** Held by whoever folds counters: one at a time is enough. */
export function foldingLock(schema: string): string {
  return remembered(schema, "folding");
}

/** Held by whoever removes what is past its retention: two at once would both go by what there was before. */
export function pruningLock(schema: string): string {
  return remembered(schema, "pruning");
}

/** Held by whoever changes the groups of a queue with limits, or claims from it. */
export function gateLock(schema: string, queue: number): string {
  return remembered(schema, `gate ${queue}`);
}

const TRY = `SELECT pg_try_advisory_xact_lock($1::int8) AS mine`;

/** To the commit. False where somebody else has it. */
export async function tryLock(tx: Tx, lock: string): Promise<boolean> {
  return (await tx.get<{ mine: boolean }>(TRY, lock))!.mine;
}
