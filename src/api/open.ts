import { fileURLToPath } from "node:url";
import { createBroker } from "../broker/broker.ts";
import type { Clock } from "../core/clock.ts";
import { type Duration, parseDuration } from "../core/duration.ts";
import { DibsError, invalid } from "../core/errors.ts";
import { type Logger, SILENT } from "../core/logger.ts";
import { checkNames, checkObject } from "../core/options.ts";
import { show } from "../core/show.ts";
import { systemClock } from "../engine/system-clock.ts";
import { openMemory } from "../engines/memory/engine.ts";
import { openPostgres } from "../engines/postgres/engine.ts";
import { openSqlite } from "../engines/sqlite/engine.ts";
import { Dibs } from "./dibs.ts";

export interface OpenOptions {
  /**
   * "full" (unless set): what `add` returned survives a power cut. "relaxed": it survives a crash of the
   * process, not of the machine, and commits are faster.
   */
  durability?: "full" | "relaxed" | undefined;
  /** Told of what no caller is told: a worker that cannot reach the store. Nothing is logged unless set. */
  logger?: Logger | undefined;
  /** How often the store is looked at for what no notification told of; 2 s unless set. */
  poll?: Duration | undefined;
  /** PostgreSQL: the schema that holds the tables, "dibs" unless set. Several stores can share a database. */
  schema?: string | undefined;
  /**
   * PostgreSQL: false behind a transaction pooler such as PgBouncer, which cannot pass on notifications: what other
   * processes add is then found by the slow poll, every two seconds.
   */
  listen?: boolean | undefined;
  /** For tests: see ManualClock in "dibs/testing". */
  clock?: Clock | undefined;
}

/**
 * Opens a store: a file (`"work.db"`), a PostgreSQL database (`"postgres://user@host/database"`) for many machines, or
 * `":memory:"` for tests. Without an address: DIBS_URL, or ./dibs.db.
 */
export async function open(url?: string, options: OpenOptions = {}): Promise<Dibs> {
  checkObject(options, "The options of open");
  checkNames(options, ["durability", "logger", "poll", "schema", "listen", "clock"], "open");
  const pollEvery = options.poll === undefined ? undefined : parseDuration(options.poll, "poll", 100);
  const address = url ?? (process.env["DIBS_URL"] || "./dibs.db");
  const engine = await openEngine(address, options);
  const port = createBroker(engine, { clock: options.clock ?? systemClock, pollEvery });
  return new Dibs(port, options.logger ?? SILENT);
}

async function openEngine(address: string, options: OpenOptions) {
  const { clock, durability = "full", schema, listen } = options;
  if (typeof address !== "string" || address === "") {
    throw invalid(
      `open() takes the path of a file, a postgres:// address or ":memory:"; got ${show(address)}.`,
    );
  }
  if (durability !== "full" && durability !== "relaxed") {
    throw invalid(`durability must be "full" or "relaxed"; got ${show(durability)}.`);
  }
  const scheme = /^([a-z][a-z0-9+]*):\/\//i.exec(address)?.[1]?.toLowerCase();
  if (scheme === "postgres" || scheme === "postgresql") {
    const given = {
      ...(clock && { clock }),
      ...(schema !== undefined && { schema }),
      ...(listen !== undefined && { listen }),
    };
    return openPostgres({ url: address, durability, ...given });
  }
  if (schema !== undefined || listen !== undefined) {
    throw invalid(`schema and listen are for PostgreSQL; ${show(address)} is another kind of store.`);
  }
  if (address === ":memory:") return openMemory({ clock: clock ?? systemClock });
  if (scheme !== undefined && scheme !== "file") {
    throw new DibsError(
      "UNSUPPORTED",
      `open() cannot open ${scheme}:// addresses in this version. Give the path of a file, such as "work.db", a postgres:// address, or ":memory:".`,
    );
  }
  const path = scheme === "file" ? pathOf(address) : address;
  if (path !== path.trim() || path.includes("\0")) {
    throw invalid(`The path of a store has no blanks at its ends and no NUL; got ${show(path)}.`);
  }
  return openSqlite({ path, durability, ...(clock && { clock }) });
}

function pathOf(url: string): string {
  try {
    return fileURLToPath(url);
  } catch (error) {
    throw invalid(
      `${show(url)} names no file (${(error as Error).message}). Write file:///folder/work.db, or the plain path.`,
    );
  }
}
