import type { Database } from "better-sqlite3";
import { FIRST_VERSION, SCHEMA } from "./schema.ts";

/** The first schema, then one step for each later version. Steps are only added. */
export const MIGRATIONS: readonly string[] = [SCHEMA];

/** The schema version that this dibs writes, in the file's `user_version`. */
export function latestVersion(): number {
  return FIRST_VERSION + MIGRATIONS.length - 1;
}

/** Brings the schema up to date. Call it inside a transaction, so that one of ten processes does it. */
export function migrate(db: Database): void {
  const version = db.pragma("user_version", { simple: true }) as number;
  const applied = version === 0 ? 0 : version - FIRST_VERSION + 1;
  for (const step of MIGRATIONS.slice(applied)) db.exec(step);
  db.pragma(`user_version = ${latestVersion()}`);
}
