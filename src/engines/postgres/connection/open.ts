import { setTimeout as sleep } from "node:timers/promises";
import { hostAndDatabaseOf } from "../../../core/address.ts";
import { DibsError, invalid } from "../../../core/errors.ts";
import { show } from "../../../core/show.ts";
import { STORE_LIMIT } from "../../../core/task-id.ts";
import { closedError } from "../../../engine/transfer.ts";
import { NotConnected, refusalFrom } from "./failure.ts";
import { Connection, type ConnectionOptions } from "./connection.ts";
import { migrationLock } from "./locks.ts";
import { latestVersion, migrate, readNeeds, version } from "../schema/migrations.ts";
import { FIRST_VERSION } from "../schema/schema.ts";

/** SKIP LOCKED with all that is used beside it is older; what is older than this is no longer looked after. */
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

/** Of the whole address, up to what it asks for: a password may have a comma in it. */
const HOSTS = /^[a-z]+:\/\/(?:[^/?#]*@)?([^/?#]*)/i;

export function checkOneHost(url: string): void {
  const asked = new URLSearchParams(/\?([^#]*)/.exec(url)?.[1]).get("host");
  if (![HOSTS.exec(url)?.[1], asked].some((hosts) => hosts?.includes(","))) return;
  throw invalid(
    "The address of a PostgreSQL database names one host, and this one names several. Give it one that leads to the server " +
      "which can be written to: a proxy, or a name that moves.",
  );
}

// The epoch begins with the salt: a store that was dropped and made again is not taken for the one before (queue-cache.ts).
const INSERT_STORE = `
  INSERT INTO dibs.store (one, salt, revision, epoch) VALUES (1, $1::int4, 0, $1::int4) ON CONFLICT DO NOTHING`;

export interface MakeOptions {
  link: ConnectionOptions;
  /** Part of every task's id; drawn at random for a new store unless a test names it. */
  store?: number;
  /** False: a schema that is not there is not made. */
  create?: boolean;
  /** A store that was moved, or is being moved or filled, is opened too: for whoever does that. */
  closedToo?: boolean;
  /** Until then a server that is full, or starting up, is waited for; not at all unless it is said. */
  until?: number;
}

/** The server is there, and will let somebody in before long. Anything else is most likely a mistake in the address. */
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

/** Connects, and makes the schema or brings it up to date. What cannot be used is refused in words. */
export async function openConnection(options: MakeOptions): Promise<Connection> {
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

/** A store, as messages and moves name it. */
export function labelOf(where: string, schema: string): string {
  return `postgres://${where}${schema === "dibs" ? "" : ` (schema "${schema}")`}`;
}

const PID = `SELECT pg_backend_pid() AS pid`;

/**
 * A transaction pooler lends a process of the server's for one transaction: to us and then to others, or now this one and then
 * that. One that lends it for the whole session does neither. The other one prepares nothing: what is there already is refused,
 * for a reason that does not tell.
 */
async function checkSession(link: Connection, options: MakeOptions, where: string): Promise<void> {
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
 * Whoever has one of the tables, such as a dump, is waited for; and behind a step that waits for a table everybody waits who
 * wants it. So it gives way soon, and tries again.
 */
const LOCK_MS = 500;
const PAUSE_MS = 500;
const PATIENCE_MS = 30_000;
/** It waited for too long, or was waited for by one that it waited for. */
const IN_THE_WAY = new Set(["55P03", "40P01"]);

async function makeStore(link: Connection, options: MakeOptions, where: string): Promise<void> {
  for (const until = performance.now() + PATIENCE_MS; ;) {
    try {
      return await makeStoreOnce(link, options, where);
    } catch (error) {
      if (!IN_THE_WAY.has((error as { code?: string }).code ?? "")) throw error;
      if (performance.now() > until) throw inTheWay(link.schema, where, error);
      await sleep(PAUSE_MS);
    }
  }
}

function inTheWay(schema: string, where: string, cause: unknown): DibsError {
  return new DibsError(
    "UNAVAILABLE",
    `The schema "${schema}" at ${where} is to be brought up to date, and somebody's transaction has had its tables for long. ` +
      `Nothing was changed. Try again when it is over; pg_stat_activity shows whose it is.`,
    { cause, retryable: true },
  );
}

/** In one transaction, under a lock: of ten processes that start at once, one makes it and nine find it made. */
async function makeStoreOnce(link: Connection, { store }: MakeOptions, where: string): Promise<void> {
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
