import { createHash } from "node:crypto";
import type { Tx } from "./tx.ts";

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
 * (alone.ts), or raises floors (floors.ts).
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
