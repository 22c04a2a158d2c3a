import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { onTestFinished } from "vitest";
import { raiseFloors } from "../../../src/engines/postgres/line/floors.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { Connection } from "../../../src/engines/postgres/connection/connection.ts";
import { catalogueLock } from "../../../src/engines/postgres/connection/locks.ts";
import { settingsFor } from "../../../src/engines/postgres/connection/settings.ts";
import { type Dibs, open, type OpenOptions } from "../../../src/index.ts";
import { freshSchema } from "../../postgres/shared.ts";
import { Proxy } from "../../proxy.ts";

export interface Ground {
  url: string;
  schema: string;
  /** Closed when the test is over. */
  open: (options?: OpenOptions, url?: string) => Promise<Dibs>;
  /** A store that does nothing by itself, closed when the test is over. */
  engine: () => Promise<Engine>;
  /** Another client of the database, closed when the test is over. */
  client: () => Promise<Client>;
}

/** Registers what is undone when the test is over. Tests that run at the same time pass that of their own context. */
export type CleanUp = (undo: () => Promise<void>) => void;

/** A schema of its own on the tests' server. */
export async function ground(cleanUp: CleanUp = onTestFinished): Promise<Ground> {
  const { url, schema } = await freshSchema(cleanUp);
  return {
    url,
    schema,
    open: async (options = {}, address = url) => {
      const dibs = await open(address, { schema, ...options });
      cleanUp(() => dibs.close());
      return dibs;
    },
    engine: async () => {
      const engine = await openPostgres({ url, schema });
      cleanUp(() => engine.close());
      return engine;
    },
    client: async () => {
      const client = new Client({ connectionString: url });
      client.on("error", () => {});
      await client.connect();
      cleanUp(() => client.end());
      return client;
    },
  };
}

/** A connection as a store has it, to look behind the store. Closed when the test is over. */
export async function connect({ url, schema }: Pick<Ground, "url" | "schema">): Promise<Connection> {
  const opened = await Connection.open({
    url,
    schema,
    prepare: true,
    settings: settingsFor("full"),
    connectMs: 10_000,
  });
  onTestFinished(() => opened.close());
  return opened;
}

/** A way to the same server that can be cut, closed when the test is over. */
export async function proxyTo(
  target: string,
  cleanUp: CleanUp = onTestFinished,
): Promise<{ proxy: Proxy; url: string }> {
  const address = new URL(target);
  const proxy = await Proxy.start(Number(address.port));
  cleanUp(() => proxy.close());
  address.port = `${proxy.port}`;
  return { proxy, url: address.href };
}

/** Connections to this address have a name of their own, because several tests share a server. */
export function named(url: string, name: string): string {
  const address = new URL(url);
  address.searchParams.set("application_name", name);
  return address.href;
}

/** Ends every connection of this name, as an administrator would. */
export async function endConnections(client: Client, name: string): Promise<number> {
  const { rowCount } = await client.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()`,
    [name],
  );
  return rowCount ?? 0;
}

export interface Role {
  /** Of the same database, for this user. */
  url: string;
  /** What an administrator can do to it. */
  alter: (how: string) => Promise<void>;
  hangUp: () => Promise<void>;
  /** All that is there already. */
  mayUse: () => Promise<void>;
}

/** A user of its own for one test; dropped when that is over. It may do anything, until it is altered. */
export async function roleOf({ url, client, schema }: Ground): Promise<Role> {
  const admin = await client();
  const role = `${schema}_role`;
  await admin.query(`CREATE ROLE ${role} LOGIN SUPERUSER`);
  onTestFinished(async () => {
    await admin.query(`REASSIGN OWNED BY ${role} TO CURRENT_USER; DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });
  const address = new URL(url);
  address.username = role;
  const hangUp = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1`;
  const grant = `
    GRANT ALL ON SCHEMA ${schema} TO ${role}; GRANT ALL ON ALL TABLES IN SCHEMA ${schema} TO ${role};
    GRANT ALL ON ALL SEQUENCES IN SCHEMA ${schema} TO ${role}`;
  return {
    url: address.href,
    alter: async (how: string) => void (await admin.query(`ALTER ROLE ${role} ${how}`)),
    hangUp: async () => void (await admin.query(hangUp, [role])),
    mayUse: async () => void (await admin.query(grant)),
  };
}

/** Waits until a statement with these words, such as the name of the schema, waits for a lock. */
export async function untilOneWaits(client: Client, words: string): Promise<void> {
  const sql = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1`;
  while ((await client.query(sql, [`%${words}%`])).rowCount === 0) {
    // Within a transaction the server answers from a snapshot of its statistics, unless it is cleared.
    await client.query("SELECT pg_stat_clear_snapshot()");
    await sleep(5);
  }
}

/**
 * Changes times without the store. No read would find the earlier times below the floors, so the floors are deleted,
 * and locked so that no store raises them meanwhile.
 */
export async function changeTimes(
  client: Client,
  schema: string,
  sql: string,
  values: unknown[] = [],
): Promise<void> {
  await client.query("BEGIN");
  await client.query(`SELECT pg_advisory_xact_lock(${catalogueLock(schema)})`);
  await client.query(sql.replaceAll("dibs.", `${schema}.`), values);
  await client.query(`DELETE FROM ${schema}.floor`);
  await client.query("COMMIT");
}

/** The number of a lock. */
const PAUSE = 4_711;

/**
 * Makes statements with these words wait after they have taken their snapshot and before they lock anything: every read
 * of a line first reads its floor.
 */
export async function pauseIn(
  place: Ground,
  words: string,
): Promise<{ reached: () => Promise<void>; continueRun: () => Promise<void> }> {
  const { schema } = place;
  await raiseFloors(await connect(place), ["work"]);
  const client = await place.client();
  await client.query(`
    ALTER TABLE ${schema}.floor RENAME TO real_floor;
    CREATE FUNCTION ${schema}.pause() RETURNS bool LANGUAGE plpgsql AS $$
    BEGIN
      IF current_query() LIKE '%${words}%' THEN PERFORM pg_advisory_xact_lock_shared(${PAUSE}); END IF;
      RETURN true;
    END $$;
    CREATE VIEW ${schema}.floor AS SELECT * FROM ${schema}.real_floor WHERE ${schema}.pause()`);
  await client.query(`SELECT pg_advisory_lock(${PAUSE})`);
  return {
    reached: () => untilOneWaits(client, schema),
    continueRun: async () => void (await client.query(`SELECT pg_advisory_unlock(${PAUSE})`)),
  };
}
