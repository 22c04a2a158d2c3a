import { readFileSync } from "node:fs";
import { createBroker } from "../broker/broker.ts";
import { kindOf, showAddress } from "../core/address.ts";
import { checkCount } from "../core/arguments.ts";
import type { Clock } from "../core/clock.ts";
import type { Measured } from "../core/commit.ts";
import { type Duration, parseDuration } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import { type Logger, SILENT } from "../core/logger.ts";
import { checkBoolean, checkNames, checkObject } from "../core/options.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/show.ts";
import { codeOf, filePathOf } from "../engine/real-file.ts";
import { systemClock } from "../engine/system-clock.ts";
import { Dibs } from "./dibs.ts";
import { tracePort } from "./trace.ts";

export interface OpenOptions {
  /**
   * "full" (unless set): what `add` returned survives a power cut. "relaxed": it survives a crash of the
   * process, not of the machine, and commits are faster.
   */
  durability?: "full" | "relaxed" | undefined;
  /**
   * Told of what no caller is told: a worker that cannot reach the store, a fault in what goes on beside all calls. Nothing is
   * logged unless set.
   */
  logger?: Logger | undefined;
  /** How often the store is looked at for what no notification told of; 2 s unless set. */
  poll?: Duration | undefined;
  /** PostgreSQL: the schema that holds the tables, "dibs" unless set. Several stores can share a database. */
  schema?: string | undefined;
  /** False: only a store that is there is opened, and none is made. A server's is there. */
  create?: boolean | undefined;
  /**
   * PostgreSQL: false behind a transaction pooler such as PgBouncer, which cannot pass on notifications: what other
   * processes add is then found by the slow poll, every two seconds.
   */
  listen?: boolean | undefined;
  /** A dibs server: the token that it knows this client by; DIBS_TOKEN unless set. */
  token?: string | undefined;
  /** For tests: see ManualClock in "dibs/testing". Not with PostgreSQL, whose time is its server's. */
  clock?: Clock | undefined;
}

/**
 * Opens a store: a file (`"work.db"`), a PostgreSQL database (`"postgres://user@host/database"`) for many machines, a dibs
 * server (`"http://127.0.0.1:7411"`), or `":memory:"` for tests. Without an address: DIBS_URL, or ./dibs.db.
 */
export async function open(url?: string, options: OpenOptions = {}): Promise<Dibs> {
  checkCount(arguments, "open(url, options)");
  checkObject(options, "The options of open");
  const known = ["durability", "logger", "poll", "schema", "listen", "create", "token", "clock"];
  checkNames(options, known, "open");
  const address = url ?? (process.env["DIBS_URL"] || "./dibs.db");
  return new Dibs(tracePort(await openPort(address, options)), options.logger ?? SILENT);
}

/**
 * What handles are written over, behind an address: a broker with its engine, or a client of a server. Each is loaded when
 * it is asked for: a process that uses one of them should not start three times as slowly for the others.
 */
export async function openPort(
  address: string,
  options: OpenOptions,
  measure?: (measured: Measured) => void,
): Promise<Port> {
  if (kindOf(address) === "server") return openServer(address, options);
  if (options.token !== undefined) {
    throw invalid(`token is for a dibs server; ${showAddress(address)} is a store that is opened directly.`);
  }
  const pollEvery = options.poll === undefined ? undefined : parseDuration(options.poll, "poll", 100);
  const engine = await openEngine(address, options, measure);
  const { clock = systemClock, logger } = options;
  return createBroker(engine, { clock, logger, pollEvery, measure });
}

/** What the server decides, and its clients cannot. */
const OF_STORES = ["durability", "poll", "schema", "listen"] as const;

async function openServer(url: string, options: OpenOptions): Promise<Port> {
  const misplaced = OF_STORES.find((name) => options[name] !== undefined);
  if (misplaced) {
    throw invalid(`${misplaced} is for a store that is opened directly; a dibs server has set its own.`);
  }
  if (!URL.canParse(url))
    throw invalid(`${showAddress(url)} is no address of a server. Write http://host:7411.`);
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
    // Not its name: whoever mixes it up with DIBS_TOKEN has put the token there.
    throw invalid(`DIBS_TOKEN_FILE names a file that cannot be read (${codeOf(error)}).`);
  }
}

async function openEngine(address: string, options: OpenOptions, measure?: (measured: Measured) => void) {
  const { clock, durability = "full", schema, listen, create = true, logger } = options;
  if (durability !== "full" && durability !== "relaxed") {
    throw invalid(`durability must be "full" or "relaxed"; got ${show(durability)}.`);
  }
  checkBoolean(create, "create");
  const kind = kindOf(address);
  if (kind === "postgres") {
    if (clock)
      throw invalid("clock is for the other stores: the time of a store on PostgreSQL is its server's.");
    const given = {
      ...(schema !== undefined && { schema }),
      ...(listen !== undefined && { listen }),
      ...(logger && { logger }),
      ...(measure && { onConflict: measure }),
    };
    const { openPostgres } = await import("../engines/postgres/engine.ts");
    return openPostgres({ url: address, durability, create, ...given });
  }
  if (schema !== undefined || listen !== undefined) {
    throw invalid(`schema and listen are for PostgreSQL; ${showAddress(address)} is another kind of store.`);
  }
  if (kind === "memory") {
    if (!create) throw invalid(`There is no store ":memory:": it is made by whoever opens it, with create.`);
    const { openMemory } = await import("../engines/memory/engine.ts");
    return openMemory({ clock: clock ?? systemClock });
  }
  const { openSqlite } = await import("../engines/sqlite/engine.ts");
  return openSqlite({ path: filePathOf(address), durability, create, ...(clock && { clock }) });
}
