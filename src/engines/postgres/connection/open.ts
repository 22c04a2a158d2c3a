import { setTimeout as sleep } from "node:timers/promises";
import { hostAndDatabaseOf } from "../../../core/process/address.ts";
import { DibsError, invalid } from "../../../core/errors/errors.ts";
import { show } from "../../../core/errors/show.ts";
import { STORE_LIMIT } from "../../../core/task/task-id.ts";
import { closedError } from "../../../engine/transfer.ts";
import { NotConnected, refusalFrom } from "./failure.ts";
import { Connection, type ConnectionOptions } from "./connection.ts";
import { migrationLock } from "./locks.ts";
import { latestVersion, migrate, readNeeds, version } from "../schema/migrations.ts";
import { FIRST_VERSION } from "../schema/schema.ts";

/** PostgreSQL 15: older versions are not tested. */
const OLDEST_SERVER = 150_000;

const SCHEMA_NAME = /^[a-z_][a-z0-9_]{0,47}$/;

export function checkSchemaName(schema: unknown): string {
  if (typeof schema !== "string" || !SCHEMA_NAME.test(schema) || schema.startsWith("pg_")) {
    throw invalid(
      `schema must be a plain name: small letters, digits and _, at most 48, not beginning with pg_; got ${show(schema)}.`,
    );
  }
  return schema;
}

/** The hosts of an address. Only these may not contain a comma: a password may. */
const HOSTS = /^[a-z]+:\/\/(?:[^/?#]*@)?([^/?#]*)/i;

export function checkOneHost(url: string): void {
  const asked = new URLSearchParams(/\?([^#]*)/.exec(url)?.[1]).get("host");
  if (![HOSTS.exec(url)?.[1], asked].some((hosts) => hosts?.includes(","))) return;
  throw invalid(
    "The address of a PostgreSQL database names one host, and this one names several. Give it one that leads to the server " +
      "which can be written to: a proxy, or a name that moves.",
  );
}

// The epoch starts with the salt, so that a store that was dropped and created again has another one (queue-cache.ts).
const INSERT_STORE = `
  INSERT INTO dibs.store (one, salt, revision, epoch) VALUES (1, $1::int4, 0, $1::int4) ON CONFLICT DO NOTHING`;

export interface OpenOptions {
  link: ConnectionOptions;
  /** Part of every task's id; random for a new store unless a test sets it. */
  store?: number;
  /** False: a schema that does not exist is not created. */
  create?: boolean;
  /** Opens also a store that was moved, or is being moved or filled: for export, import and move. */
  closedToo?: boolean;
  /** Until when to wait for a server that is full or starting up; default: no wait. */
  until?: number;
}

/** The server will soon accept connections. After any other error, the address is most likely wrong. */
const SOON = new Set(["53300", "57P03"]);
const SOON_MS = 100;

/** Tries again while the server is full or starting up. */
export async function whileFull<T>(until: number, connect: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await connect();
    } catch (error) {
      const { code } = (error instanceof NotConnected ? error.cause : error) as { code?: string };
      if (!SOON.has(code ?? "") || performance.now() + SOON_MS > until) throw error;
    }
    await sleep(SOON_MS);
  }
}

/** Connects, and creates the schema or brings it up to date. */
export async function openConnection(options: OpenOptions): Promise<Connection> {
  const where = hostAndDatabaseOf(options.link.url);
  let link: Connection | undefined;
  try {
    link = await whileFull(options.until ?? 0, () => Connection.open(options.link));
    await checkSession(link, options, where);
    await checkServer(link, where);
    if (options.create === false) await checkThere(link, where);
    if (!(await isUpToDate(link, where))) await makeStore(link, options, where);
    if (!options.closedToo) await checkOpen(link, where);
    return link;
  } catch (error) {
    link?.destroy();
    throw refusalFrom(error, where);
  }
}

const CLOSED = `SELECT transfer FROM dibs.store WHERE closed`;

async function checkOpen(link: Connection, where: string): Promise<void> {
  const [row] = await link.all<{ transfer: string }>(CLOSED);
  if (row) throw closedError(row.transfer, labelOf(where, link.schema));
}

/** The name of a store in messages. */
export function labelOf(where: string, schema: string): string {
  return `postgres://${where}${schema === "dibs" ? "" : ` (schema "${schema}")`}`;
}

const PID = `SELECT pg_backend_pid() AS pid`;

/**
 * Detects a transaction pooler: it shares one server process between two connections, or moves a connection between
 * processes. The second connection prepares nothing, because a name that is already prepared gives another error.
 */
async function checkSession(link: Connection, options: OpenOptions, where: string): Promise<void> {
  if (link.pid === undefined || link.isDirect) return;
  const other = await whileFull(options.until ?? 0, () =>
    Connection.open({ ...options.link, prepare: false, settings: {} }),
  );
  try {
    for (const each of [link, other, link]) {
      const [row] = await each.all<{ pid: number }>(PID);
      if ((row!.pid === link.pid) !== (each === link)) throw pooled(where);
    }
  } finally {
    await other.close();
  }
}

function pooled(where: string): DibsError {
  return invalid(
    `PostgreSQL at ${where} is reached through a pooler that lends a connection for one transaction only. Nothing was changed. ` +
      `Open the store with listen: false (dibs serve: --pooler), or go past the pooler.`,
  );
}

async function checkServer(link: Connection, where: string): Promise<void> {
  const [row] = await link.all<{ version: number; utf8: boolean }>(
    `SELECT current_setting('server_version_num')::int4 AS version, current_setting('server_encoding') = 'UTF8' AS utf8`,
  );
  if (row!.version < OLDEST_SERVER) {
    throw new DibsError(
      "UNSUPPORTED",
      `dibs needs PostgreSQL 15 or newer; ${where} is ${Math.floor(row!.version / 10_000)}.`,
    );
  }
  if (!row!.utf8) {
    throw new DibsError(
      "UNSUPPORTED",
      `The database at ${where} is not encoded in UTF-8: payloads would not come back as they were. Name another one.`,
    );
  }
}

async function checkThere(link: Connection, where: string): Promise<void> {
  if ((await version(link)) !== undefined) return;
  throw invalid(
    `There is no store in the schema "${link.schema}" at ${where}. Look at the database and the schema; nothing was made.`,
  );
}

async function isUpToDate(link: Connection, where: string): Promise<boolean> {
  const found = await version(link);
  if (found === undefined) return false;
  if (found < FIRST_VERSION) {
    throw new DibsError(
      "UNSUPPORTED",
      `The schema "${link.schema}" at ${where} was made by a dibs before its first release (version ${found}; this one ` +
        `reads ${FIRST_VERSION} and later). It was left as it is. Export it with the dibs that made it and import the ` +
        `file, or name another schema.`,
    );
  }
  const needs = found > latestVersion() ? await readNeeds(link) : 0;
  if (needs > latestVersion()) {
    throw new DibsError(
      "UNSUPPORTED",
      `The schema "${link.schema}" at ${where} was made by a newer dibs (${needs}; this one knows ${latestVersion()}). ` +
        `Update dibs, or name another schema.`,
    );
  }
  return found >= latestVersion();
}

/**
 * A schema change waits for transactions that use its tables, such as a dump, and every other transaction waits behind it.
 * So it gives up soon, and tries again.
 */
const LOCK_MS = 500;
const PAUSE_MS = 500;
const PATIENCE_MS = 30_000;
/** Lock timeout, deadlock. */
const BLOCKED = new Set(["55P03", "40P01"]);

async function makeStore(link: Connection, options: OpenOptions, where: string): Promise<void> {
  for (const until = performance.now() + PATIENCE_MS; ;) {
    try {
      return await makeStoreOnce(link, options, where);
    } catch (error) {
      if (!BLOCKED.has((error as { code?: string }).code ?? "")) throw error;
      if (performance.now() > until) throw blocked(link.schema, where, error);
      await sleep(PAUSE_MS);
    }
  }
}

function blocked(schema: string, where: string, cause: unknown): DibsError {
  return new DibsError(
    "UNAVAILABLE",
    `The schema "${schema}" at ${where} is to be brought up to date, and somebody's transaction has had its tables for long. ` +
      `Nothing was changed. Try again when it is over; pg_stat_activity shows whose it is.`,
    { cause, retryable: true },
  );
}

/** In one transaction, under a lock: of several processes that start at once, one creates the schema. */
async function makeStoreOnce(link: Connection, { store }: OpenOptions, where: string): Promise<void> {
  await link.exec("BEGIN");
  try {
    await link.exec(`SELECT pg_advisory_xact_lock(${migrationLock(link.schema)})`);
    await link.exec(`SET LOCAL lock_timeout = ${LOCK_MS}`);
    // Also with relaxed durability: if a crash lost the tables, a new store would give out the same fences again.
    await link.exec("SET LOCAL synchronous_commit = on");
    if (!(await isUpToDate(link, where))) {
      await migrate(link, await version(link));
      const salt = store ?? Math.floor(Math.random() * STORE_LIMIT);
      await link.all(INSERT_STORE, salt);
    }
    await link.exec("COMMIT");
  } catch (error) {
    await link.exec("ROLLBACK").catch(() => {});
    throw error;
  }
}
