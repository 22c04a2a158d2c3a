import { readFileSync } from "node:fs";
import { createBroker } from "../broker/broker.ts";
import { kindOf, type PostgresPool, showAddress } from "../core/process/address.ts";
import { checkCount } from "../core/input/arguments.ts";
import type { Clock } from "../core/time/clock.ts";
import type { Measured } from "../core/commit.ts";
import { type Duration, parseDuration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { type Logger, SILENT, STANDARD_ERROR } from "../core/process/logger.ts";
import { checkBoolean, checkNames, checkObject } from "../core/input/options.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import { throttleLogger } from "../core/process/throttled-logger.ts";
import { codeOf, filePathOf } from "../engine/real-file.ts";
import { systemClock } from "../engine/system-clock.ts";
import { Metrics } from "../metrics/metrics.ts";
import { Dibs } from "./dibs.ts";
import { tracePort } from "./trace.ts";

// `open()`: chooses the engine or the client by the address. The only file of the API that imports them.

export interface OpenOptions {
  /**
   * "full" (default): a task that `add` has returned survives a power cut. "relaxed": it survives a crash of the
   * process but not of the machine, and commits are faster.
   */
  durability?: "full" | "relaxed" | undefined;
  /**
   * Gets the messages that no call returns: a task is dead or keeps failing, a worker cannot reach the store,
   * background work failed. Default: one line per message on standard error.
   */
  logger?: Logger | undefined;
  /** How often to poll the store for what no notification reported; default 2 s. */
  poll?: Duration | undefined;
  /** PostgreSQL: the schema that contains the tables, default "dibs". Several stores can share a database. */
  schema?: string | undefined;
  /** False: open only an existing store, and create none. A server's store always exists. */
  create?: boolean | undefined;
  /**
   * PostgreSQL: set to false behind a transaction pooler such as PgBouncer, which cannot deliver notifications. Tasks
   * of other processes are then found by the poll, every two seconds.
   */
  listen?: boolean | undefined;
  /**
   * PostgreSQL: returns the current password. Called for every connection, so that it may be a token that expires, as
   * in cloud databases. Replaces the password of the address or pool.
   */
  password?: (() => string | Promise<string>) | undefined;
  /** A dibs server: the token of this client; default DIBS_TOKEN. */
  token?: string | undefined;
  /** For tests: see ManualClock in "dibs/testing". Not with PostgreSQL, which uses its server's clock. */
  clock?: Clock | undefined;
}

/**
 * Opens a store: a file (`"work.db"`), a PostgreSQL database (`"postgres://user@host/database"`) for many machines, a
 * dibs server (`"http://127.0.0.1:7411"`), or `":memory:"` for tests. Without an address: DIBS_URL, or ./dibs.db. Of a
 * `pg.Pool`, dibs takes the address and the options, and opens connections of its own.
 */
export async function open(url?: string | PostgresPool, options: OpenOptions = {}): Promise<Dibs> {
  checkCount(arguments, "open(url, options)");
  checkObject(options, "The options of open");
  const known = ["durability", "logger", "poll", "schema", "listen", "password", "create", "token", "clock"];
  checkNames(options, known, "open");
  const address = url ?? (process.env["DIBS_URL"] || "./dibs.db");
  const logger = options.logger ?? throttleLogger(STANDARD_ERROR);
  const metrics = new Metrics();
  const port = await openPort(address, { ...options, logger }, { measure: (each) => metrics.record(each) });
  return new Dibs(tracePort(port), logger, metrics);
}

/**
 * @internal As open(), for a process that makes a few calls and ends, such as a command of the shell: it starts no
 * thread and opens one connection less. It logs nothing unless it is given a logger.
 */
export async function openBriefly(address: string, options: OpenOptions): Promise<Dibs> {
  const listen = kindOf(address) === "postgres" ? { listen: false } : {};
  const { logger = SILENT } = options;
  return new Dibs(await openPort(address, { ...options, ...listen, logger }, { isBrief: true }), logger);
}

/** Options that only dibs itself sets. */
interface Internal {
  measure?: ((measured: Measured) => void) | undefined;
  isBrief?: boolean;
}

/**
 * The port behind an address: a broker with its engine, or a client of a server. Each engine is loaded only when it is
 * needed: loading all of them would make a process start three times as slowly.
 */
export async function openPort(
  address: string | PostgresPool,
  options: OpenOptions,
  internal: Internal = {},
): Promise<Port> {
  if (kindOf(address) === "server") return openServer(address as string, options);
  if (options.token !== undefined) {
    const named = typeof address === "string" ? showAddress(address) : "a pool";
    throw invalid(`token is for a dibs server; ${named} is a store that is opened directly.`);
  }
  const pollEvery = options.poll === undefined ? undefined : parseDuration(options.poll, "poll", 100);
  const engine = await openEngine(address, options, internal);
  const { clock = systemClock, logger } = options;
  return createBroker(engine, { clock, logger, pollEvery, measure: internal.measure });
}

/** Options that only the server's operator can set. */
const OF_STORES = ["durability", "poll", "schema", "listen", "password"] as const;

async function openServer(url: string, options: OpenOptions): Promise<Port> {
  const misplaced = OF_STORES.find((name) => options[name] !== undefined);
  if (misplaced) {
    throw invalid(`${misplaced} is for a store that is opened directly; a dibs server has set its own.`);
  }
  if (!URL.canParse(url))
    throw invalid(`${showAddress(url)} is not the address of a server. Write http://host:7411.`);
  const token = options.token ?? (process.env["DIBS_TOKEN"] || tokenFromFile());
  if (token !== undefined && (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token))) {
    throw invalid("token is a text without blanks, as `dibs tokens add` printed it.");
  }
  const { clock = systemClock, logger = SILENT } = options;
  const { openRemote } = await import("../client/remote.ts");
  return openRemote({ url, token, clock, logger });
}

function tokenFromFile(): string | undefined {
  const path = process.env["DIBS_TOKEN_FILE"];
  if (!path) return undefined;
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    // Do not show the name: someone who confuses it with DIBS_TOKEN has put the token there.
    throw invalid(
      `DIBS_TOKEN_FILE names a file that cannot be read (${codeOf(error)}). Name a readable file, or unset it.`,
    );
  }
}

async function openEngine(
  address: string | PostgresPool,
  options: OpenOptions,
  { measure, isBrief }: Internal,
) {
  const { clock, durability = "full", schema, listen, password, create = true, logger } = options;
  if (durability !== "full" && durability !== "relaxed") {
    throw invalid(`durability must be "full" or "relaxed"; got ${show(durability)}.`);
  }
  checkBoolean(create, "create");
  const kind = kindOf(address);
  if (password !== undefined && typeof password !== "function")
    throw invalid(
      `password must be a function that returns the password, or a promise of it; got a ${typeof password}. ` +
        `A password that does not change is part of the address.`,
    );
  if (kind === "postgres") {
    if (clock) throw invalid("clock cannot be set for PostgreSQL: the store uses its server's clock.");
    const given = {
      ...(schema !== undefined && { schema }),
      ...(listen !== undefined && { listen }),
      ...(password !== undefined && { password }),
      ...(logger && { logger }),
      ...(measure && { onConflict: measure }),
    };
    const { openPostgres } = await import("../engines/postgres/engine.ts");
    return openPostgres({ url: address, durability, create, ...given });
  }
  if (schema !== undefined || listen !== undefined || password !== undefined) {
    const another = `${showAddress(address)} is another kind of store.`;
    throw invalid(`schema, listen and password are for PostgreSQL; ${another}`);
  }
  if (kind === "memory") {
    if (!create)
      throw invalid(`There is no store ":memory:": each open() creates its own, so create cannot be false.`);
    const { openMemory } = await import("../engines/memory/engine.ts");
    return openMemory({ clock: clock ?? systemClock });
  }
  const { openSqlite } = await import("../engines/sqlite/engine.ts");
  const { threadsOfProcess } = await import("../engines/sqlite/thread/store-threads.ts");
  const given = {
    ...(clock && { clock }),
    ...(isBrief && { isBrief }),
    ...(logger && { logger }),
  };
  return openSqlite({
    path: filePathOf(address as string),
    durability,
    create,
    threads: threadsOfProcess(),
    ...given,
  });
}
