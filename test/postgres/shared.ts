import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { PostgresServer, QUICK } from "./server.ts";

/**
 * One server for a whole run: the first test that needs it starts it, the others wait for its address, and set-up.ts
 * stops it. DIBS_TEST_POSTGRES names another server instead, which is left unchanged.
 */
export async function sharedServer(): Promise<string> {
  const given = process.env["DIBS_TEST_POSTGRES"];
  if (given) return given;
  const folder = process.env["DIBS_TEST_POSTGRES_FOLDER"];
  if (!folder) throw new Error("DIBS_TEST_POSTGRES_FOLDER is not set: test/postgres/set-up.ts has not run.");
  const file = join(folder, "url");
  if (isFirst(folder)) {
    const server = await PostgresServer.start({
      settings: QUICK,
      folder: join(folder, "server"),
      outlives: true,
    });
    writeFileSync(`${file}.new`, server.url);
    renameSync(`${file}.new`, file);
  }
  for (let waited = 0; !existsSync(file); waited += 20) {
    if (waited > 90_000) throw new Error("The tests' PostgreSQL server did not come up.");
    await sleep(20);
  }
  return readFileSync(file, "utf8");
}

function isFirst(folder: string): boolean {
  try {
    mkdirSync(join(folder, "server"));
    return true;
  } catch {
    return false;
  }
}

let lastDrop: Promise<void> = Promise.resolve();

/** A schema for one test, dropped by `cleanUp`. */
export async function freshSchema(
  cleanUp: (undo: () => Promise<void>) => void,
): Promise<{ url: string; schema: string }> {
  const url = await sharedServer();
  const schema = `test_${randomBytes(8).toString("hex")}`;
  cleanUp(async () => {
    const before = lastDrop;
    lastDrop = dropSchema(url, schema);
    lastDrop.catch(() => {});
    // Dropping takes longer than many tests: the next one starts meanwhile. Our own server is removed with everything
    // on it.
    await (process.env["DIBS_TEST_POSTGRES"] ? lastDrop : before);
  });
  return { url, schema };
}

export async function dropSchema(url: string, schema: string): Promise<void> {
  await administer(url, `SET client_min_messages = warning; DROP SCHEMA IF EXISTS ${schema} CASCADE`);
}

/** Empties the schema, except for the row of the store, which contains its counters. */
export function emptied(schema: string): string {
  return `
    DO $$ DECLARE name text; BEGIN
      FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '${schema}' AND tablename NOT IN ('migration', 'store', 'incarnation') LOOP
        EXECUTE format('DELETE FROM ${schema}.%I', name);
      END LOOP;
      FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = '${schema}' LOOP
        EXECUTE format('ALTER SEQUENCE ${schema}.%I RESTART', name);
      END LOOP;
    END $$`;
}

/** Resets the schema to the state in which its store was created. */
export function asMade(schema: string): string {
  return `
    ${emptied(schema)};
    UPDATE ${schema}.store SET revision = 0, epoch = 0, subscribed = 0, unsubscribed = 0,
      transfer = NULL, closed = false`;
}

const free: { url: string; schema: string }[] = [];

/**
 * A schema for one test, which the next test of the file gets emptied: to make a store takes 100 ms, to empty one 10 ms.
 * Only for tests that use the store by its own means, and leave its tables as they are.
 */
export async function usedSchema(
  cleanUp: (undo: () => Promise<void>) => void,
): Promise<{ url: string; schema: string }> {
  // Nobody would drop it on a server that goes on.
  if (process.env["DIBS_TEST_POSTGRES"]) return freshSchema(cleanUp);
  const place = free.pop() ?? (await freshSchema(() => {}));
  cleanUp(async () => {
    await administer(place.url, asMade(place.schema));
    free.push(place);
  });
  return place;
}

/** A database for one test, for programs that take an address but no schema. */
export async function freshDatabase(cleanUp: (undo: () => Promise<void>) => void): Promise<string> {
  const url = new URL(await sharedServer());
  const name = `test_${randomBytes(8).toString("hex")}`;
  await administer(url.href, `CREATE DATABASE ${name}`);
  cleanUp(() => administer(url.href, `DROP DATABASE ${name} WITH (FORCE)`));
  const own = new URL(url);
  own.pathname = `/${name}`;
  return own.href;
}

async function administer(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
