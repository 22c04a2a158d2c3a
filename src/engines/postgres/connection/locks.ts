import { createHash } from "node:crypto";
import type { Tx } from "../transaction/tx.ts";

/**
 * The lock order of every transaction that writes (docs/decisions/0027):
 *
 * 1. gates of queues with limits, by queue (`gateLock`)
 * 2. the catalogue, shared or exclusively (`catalogueLock`)
 * 3. rows of `dibs.run`, by id, then of `dibs.family`, by parent (flows/run-locks.ts)
 * 4. rows of tasks in their states, of `session`, `document` and `store`, and of keys that exist, by statement and values
 * 5. keys, groups and documents that it inserts, by kind and name (transaction/insert-order.ts)
 * 6. the numbers of events (`eventLock`), right before the commit
 *
 * A transaction waits for the first four only when it begins. Later it only tries them: if another transaction
 * holds one, the batch is rolled back and starts again with a wait for it (`LocksNeeded`), and a sweep skips the task
 * (SKIP LOCKED). It waits for the fifth kind in the middle, in their order; out of their order it only tries them too.
 *
 * So a transaction for which others wait at their beginning always gets on, and no cycle is possible. Two exceptions wait
 * for rows of the fourth kind: acks in bulk, for claims, while the transaction has inserted nothing of the fifth kind
 * (verbs/settle-together.ts), and a claim, for its own session.
 */

/**
 * Advisory locks are numbers that all programs of a database share. Ours are hashes, so that they do not collide with
 * those of other programs. `int8` in decimal, because a number of JavaScript does not hold 64 bits.
 */
function lockFor(schema: string, what: string): string {
  return createHash("sha256").update(`dibs:${what}:${schema}`).digest().readBigInt64BE(0).toString();
}

const known = new Map<string, string>();

function cachedLock(schema: string, what: string): string {
  const name = `${what}:${schema}`;
  let lock = known.get(name);
  if (lock === undefined) known.set(name, (lock = lockFor(schema, what)));
  return lock;
}

/** Held to change the schema. */
export function migrationLock(schema: string): string {
  return cachedLock(schema, "migration");
}

/**
 * Held shared by every transaction that writes; exclusively to remove a queue, to change what other batches have read
 * (exclusive.ts), and to raise floors (floors.ts).
 */
export function catalogueLock(schema: string): string {
  return cachedLock(schema, "catalogue");
}

/** Held from numbering events to the commit. */
export function eventLock(schema: string): string {
  return cachedLock(schema, "event");
}

/** Held to fold counters: one process at a time is enough. */
export function foldingLock(schema: string): string {
  return cachedLock(schema, "folding");
}

/** Held to prune: two processes at once would count the same rows, and remove too many. */
export function pruningLock(schema: string): string {
  return cachedLock(schema, "pruning");
}

/** Held to change the groups of a queue with limits, or to claim from it. */
export function gateLock(schema: string, queue: number): string {
  return cachedLock(schema, `gate ${queue}`);
}

const TRY = `SELECT pg_try_advisory_xact_lock($1::int8) AS mine`;

/** Until the commit. False if another transaction holds it. */
export async function tryLock(tx: Tx, lock: string): Promise<boolean> {
  return (await tx.get<{ mine: boolean }>(TRY, lock))!.mine;
}
