import { DibsError } from "../../../core/errors/errors.ts";
import type { Connection } from "../connection/connection.ts";
import { FIRST_VERSION, SCHEMA } from "./schema.ts";

/** The first schema, then one step for each later version. Steps are only added. */
export const MIGRATIONS: readonly string[] = [SCHEMA];

/** The schema version that this dibs writes. */
export function latestVersion(): number {
  return FIRST_VERSION + MIGRATIONS.length - 1;
}

/**
 * Part of a step that running processes which do not know it cannot work with: a removed column, for example. They read
 * `needs` with every batch, and refuse the batch if they know less. A new table, index or column with a default needs
 * no such part. What headers and `checkKnown` read is never removed.
 */
export const needed = (version: number): string => `
  ALTER TABLE dibs.store ALTER COLUMN needs SET DEFAULT ${version};
  UPDATE dibs.store SET needs = ${version};`;

/** Call it before reading or writing with what this process knows of the schema. */
export function checkKnown(schema: string, needs: number): void {
  if (needs <= latestVersion()) return;
  throw new DibsError(
    "UNSUPPORTED",
    `The schema "${schema}" has been brought to version ${needs} by a newer dibs; this process knows ${latestVersion()}. ` +
      `Nothing was changed. Restart it with the newer one.`,
  );
}

/** As messages name a store of which only the connection is known. */
export function describeSchema(schema: string): string {
  return `in schema "${schema}"`;
}

/** Part of every header: why the store is closed to all processes, or null. */
export const CLOSED = `CASE WHEN closed THEN transfer END AS closed`;

const NEEDS = `SELECT needs FROM dibs.store WHERE one = 1`;

export async function readNeeds(link: Connection): Promise<number> {
  return (await link.all<{ needs: number }>(NEEDS))[0]?.needs ?? 0;
}

// Reads the catalogue, because within a transaction to_regclass answers from a cache that misses commits of other
// transactions.
const MADE = `SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'migration'`;
const SCHEMA_EXISTS = `SELECT 1 FROM pg_namespace WHERE nspname = $1`;
const APPLIED = `SELECT coalesce(max(number), 0)::int4 AS number FROM dibs.migration`;

/** The version of the schema; undefined if there is none. */
export async function version(link: Connection): Promise<number | undefined> {
  const found = await link.all(MADE, link.schema);
  if (found.length === 0) return undefined;
  const [row] = await link.all<{ number: number }>(APPLIED);
  return row!.number;
}

/**
 * Brings the schema up to date, in the open transaction. The caller holds a lock, so that of ten processes one does it.
 * `from` is the version it has now; undefined if there is none.
 */
export async function migrate(link: Connection, from: number | undefined): Promise<void> {
  // Creating a schema that exists takes a right that a careful administrator does not grant. So look first.
  const there = await link.all(SCHEMA_EXISTS, link.schema);
  if (there.length === 0) await link.exec(`CREATE SCHEMA "${link.schema}"`);
  await link.exec(
    `CREATE TABLE IF NOT EXISTS dibs.migration (number int4 PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`,
  );
  // Every batch, and every caller's transaction that has used dibs, has read the store's row. With this lock none of them
  // is in progress, and those that wait for it hold nothing that a step could wait for.
  if (from !== undefined) await link.exec(`LOCK TABLE dibs.store IN ACCESS EXCLUSIVE MODE`);
  for (const [index, step] of MIGRATIONS.entries()) {
    const version = FIRST_VERSION + index;
    if (from !== undefined && version <= from) continue;
    await link.exec(step);
    await link.exec(`INSERT INTO dibs.migration (number) VALUES (${version})`);
  }
}
