import { accessSync, chmodSync, constants, lstatSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import type { Reading } from "../../../core/time/clock.ts";
import { startTime } from "../../../core/time/engine-time.ts";
import { DibsError, invalid } from "../../../core/errors/errors.ts";
import { STORE_LIMIT } from "../../../core/task/task-id.ts";
import { checkRegular } from "../../../engine/real-file.ts";
import { isOlder } from "../../../core/process/version.ts";
import { failureFrom } from "./failure.ts";
import { latestVersion, migrate } from "../schema/migrations.ts";
import { FIRST_VERSION } from "../schema/schema.ts";

/** Opens a store's file and sets up SQLite. Every connection begins here. */

export interface OpenOptions {
  path: string;
  store?: number;
  /** False: a file that does not exist is not created. */
  create?: boolean;
  readonly?: boolean;
}

/** "dibs", in the file's header. */
const APPLICATION_ID = 0x64_69_62_73;
/** Older versions could lose commits in the WAL if a checkpoint came at a bad moment. */
const OLDEST_SQLITE = "3.51.3";
export const BUSY_MS = 5_000;
const CHECKPOINT_PAGES = 4_000;
export const JOURNAL_LIMIT = 64 * 1024 * 1024;

/** Opens the file of a store, or creates it. Any other file is refused with a clear message and not changed. */
export function openDatabase(options: OpenOptions, reading: Reading): Database.Database {
  checkSqlite();
  const { path } = options;
  const memory = path === ":memory:";
  if (!memory && options.create === false) checkThere(path);
  if (!memory && !options.readonly) makeFile(path);
  let db: Database.Database | undefined;
  try {
    db = new Database(path, { timeout: BUSY_MS, fileMustExist: options.readonly ?? false });
    if (!options.readonly) makeStore(db, options, reading);
    if (!memory) setUp(db, options);
    return db;
  } catch (error) {
    db?.close();
    throw refusal(error, path);
  }
}

function checkSqlite(): void {
  const db = new Database(":memory:");
  const sqlite = db.prepare("SELECT sqlite_version()").pluck().get() as string;
  db.close();
  if (isOlder(sqlite, OLDEST_SQLITE)) {
    throw unsupported(
      `dibs needs SQLite ${OLDEST_SQLITE} or newer, and better-sqlite3 brought ${sqlite}. Update better-sqlite3.`,
    );
  }
}

function unsupported(message: string): DibsError {
  return new DibsError("UNSUPPORTED", message);
}

/** A file without content is not a store: a store has content from the first commit. */
function checkThere(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.size) return;
  throw invalid(
    `There is no store ${path}, and none was made. Check its name, or create it with its first task: dibs add QUEUE JSON.`,
  );
}

/** Created before SQLite opens it, so that -wal and -shm inherit the mode: payloads may be secret. */
function makeFile(path: string): void {
  try {
    // The path is the real one (engine.ts). A link that was put there since is not followed.
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found) checkRegular(path, found);
    // An existing file is not opened: to close it again would drop the locks of every connection of this
    // process.
    if (found) accessSync(path, constants.R_OK | constants.W_OK);
    else writeFileSync(path, "", { flag: "wx", mode: 0o600 });
    // An empty file of the user becomes a store, with the same private mode.
    if (found?.size === 0) chmodSync(path, 0o600);
  } catch (error) {
    const { code } = error as { code?: string };
    // Another process has created it meanwhile.
    if (code === "EEXIST") return;
    if (code === "ENOENT" || code === "ENOTDIR") {
      throw invalid(
        `There is no folder ${dirname(path)} for the store ${path}. Make it first, or name another file.`,
      );
    }
    if (code === "EACCES" || code === "EPERM" || code === "EROFS") {
      throw invalid(
        `This user may not write ${path} (${code}). A store's file and its folder must be writable; name another, or mend its permissions.`,
      );
    }
    throw error;
  }
}

/** In one transaction: of ten processes that open a new file at once, one creates the store and nine find it. */
function makeStore(db: Database.Database, options: OpenOptions, reading: Reading): void {
  checkOwner(db, options);
  if (options.path !== ":memory:") {
    // Not allowed inside a transaction. It does nothing if it is set already.
    if (db.pragma("journal_mode", { simple: true }) !== "wal") db.pragma("journal_mode = WAL");
  }
  if (db.pragma("user_version", { simple: true }) === latestVersion()) return;
  db.transaction(() => {
    checkOwner(db, options);
    db.pragma(`application_id = ${APPLICATION_ID}`);
    migrate(db);
    const time = startTime(reading);
    const salt = options.store ?? Math.floor(Math.random() * STORE_LIMIT);
    db.prepare(
      `INSERT INTO store (one, salt, now, awake, boot, elapsed_at, awake_at, seq, fence, session, event, revision, listeners)
       VALUES (1, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING`,
    ).run(salt, time.now, time.awake, time.boot, time.elapsedAt, time.awakeAt);
  }).immediate();
}

function checkOwner(db: Database.Database, { path, create = true }: OpenOptions): void {
  const { owner, version, tables } = readOwner(db);
  if (owner === APPLICATION_ID) {
    if (version < FIRST_VERSION) {
      throw unsupported(
        `${path} was made by a dibs before its first release (schema ${version}; this one reads ${FIRST_VERSION} and later). ` +
          `It was left as it is. Export it with the dibs that made it and import the file, or name another file.`,
      );
    }
    if (version <= latestVersion()) return;
    throw unsupported(
      `${path} was made by a newer dibs (schema ${version}; this one knows ${latestVersion()}). Update dibs, or name another file.`,
    );
  }
  if (create && owner === 0 && version === 0 && tables === 0) return;
  throw invalid(
    `${path} is an SQLite database of another program. It was left as it is; name another file for the store.`,
  );
}

/** In one transaction: another process may be creating the store right now. */
function readOwner(db: Database.Database): { owner: number; version: number; tables: number } {
  return db.transaction(() => ({
    owner: db.pragma("application_id", { simple: true }) as number,
    version: db.pragma("user_version", { simple: true }) as number,
    tables: db.prepare("SELECT count(*) FROM sqlite_schema").pluck().get() as number,
  }))();
}

function setUp(db: Database.Database, options: OpenOptions): void {
  if (options.readonly) {
    // A read-only connection of SQLite could not resolve a doubtful journal.
    db.pragma("query_only = ON");
  }
  // Checkpoints are synced, so that the file stays sound. journal.ts syncs commits.
  db.pragma("synchronous = NORMAL");
  if (db.pragma("synchronous", { simple: true }) !== 1) {
    throw new DibsError("UNAVAILABLE", `SQLite would not set synchronous=NORMAL on ${options.path}.`, {
      retryable: false,
    });
  }
  if (db.pragma("journal_mode", { simple: true }) !== "wal") {
    throw new DibsError(
      "UNAVAILABLE",
      `${options.path} cannot be used in WAL mode: its file system does not support it (network drives do not). Name a file on a local disk.`,
      { retryable: false },
    );
  }
  db.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
  db.pragma(`journal_size_limit = ${JOURNAL_LIMIT}`);
}

function refusal(error: unknown, path: string): unknown {
  if (error instanceof Database.SqliteError && error.code === "SQLITE_NOTADB") {
    return invalid(
      `${path} is not an SQLite database. It was left as it is; name another file for the store.`,
    );
  }
  return failureFrom(error, path);
}
