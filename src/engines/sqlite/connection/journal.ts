import { closeSync, fdatasyncSync, fsyncSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { DibsError } from "../../../core/errors.ts";
import { isMarked, mark, unmark } from "./failed-sync-mark.ts";
import { JOURNAL_LIMIT } from "./open.ts";

/** `full`: what was acknowledged survives a power cut. `relaxed`: it survives a crash of every process, only. */
export type Durability = "full" | "relaxed";

const LIMIT_EVERY_MS = 500;
/** Readers are short; one that is not is waited for another time. */
const CHECKPOINT_WAIT_MS = 100;

/**
 * The -wal file: brings commits to the disk, and keeps itself short.
 *
 * SQLite would sync it inside the commit, with the store locked for every other process. Here it is synced right after,
 * and nothing is answered before. So others may see what is not on disk yet; they sync too before they tell anyone.
 *
 * After a sync that failed the file may have a hole that no later sync tells of. Then the whole journal has to go into the
 * database, whose sync is another one, and start over; before it has, nothing is read or written.
 */
export class Journal {
  readonly #db: Database.Database;
  readonly #path: string;
  /** Undefined where nobody asked for more than SQLite does by itself. */
  readonly #file: number | undefined;
  #limitedAt = Number.NEGATIVE_INFINITY;
  /** What others had committed when this was last synced. */
  #syncedVersion = -1;
  #isDoubtful = false;

  constructor(db: Database.Database, path: string, durability: Durability) {
    this.#db = db;
    this.#path = path;
    if (durability === "relaxed") return;
    this.#file = openSync(`${path}-wal`, "r+");
    syncFolder(dirname(path));
    this.#isDoubtful = isMarked(path, this.#file);
  }

  /** To be called before anything is read or written. */
  settleDoubt(): void {
    if (this.#isDoubtful && !this.#startOver()) {
      throw this.#failure(
        "UNAVAILABLE",
        "Until it is known to be kept nothing is read or changed; nothing of this batch was.",
      );
    }
  }

  /** Returns when this connection's commits are on disk, or with what is to be said where they may not be. */
  sync(): DibsError | undefined {
    const error = this.#flush(fdatasyncSync);
    if (!error || this.#startOver()) return undefined;
    return this.#failure(
      "OUTCOME_UNKNOWN",
      "This batch was carried out, and may or may not survive a power cut. An add is safe to repeat with an idempotencyKey.",
      error,
    );
  }

  /** The same for what this connection has read of others' commits. */
  syncSeen(): void {
    if (this.#file === undefined) return;
    const version = this.#db.pragma("data_version", { simple: true }) as number;
    if (version === this.#syncedVersion) return;
    const error = this.#flush(fdatasyncSync);
    if (error && !this.#startOver())
      throw this.#failure("UNAVAILABLE", "It was read here and is not told; nothing was changed.", error);
    this.#syncedVersion = version;
  }

  /**
   * Checkpoints by the way keep the file near its limit, unless readers follow each other so closely that it can
   * never start over. Then they are held up for a moment.
   */
  limit(): void {
    if (performance.now() - this.#limitedAt < LIMIT_EVERY_MS) return;
    this.#limitedAt = performance.now();
    const size = statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
    // One that fails may find its moment the next time; callers are told of the disk's troubles by their own commits.
    if (size > JOURNAL_LIMIT) this.#checkpoint();
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
  }

  #flush(flush: (file: number) => void): unknown {
    if (this.#file === undefined) return undefined;
    try {
      flush(this.#file);
      return undefined;
    } catch (error) {
      this.#isDoubtful = true;
      mark(this.#path, this.#file);
      return error;
    }
  }

  /** Answers whether all is on disk. The journal's new length must be too: what it held is older than the database now. */
  #startOver(): boolean {
    if (!this.#checkpoint() || this.#flush(fsyncSync)) return false;
    this.#isDoubtful = false;
    unmark(this.#path);
    return true;
  }

  /** Answers whether the file could start over. */
  #checkpoint(): boolean {
    this.#db.pragma(`busy_timeout = ${CHECKPOINT_WAIT_MS}`);
    try {
      const [outcome] = this.#db.pragma("wal_checkpoint(TRUNCATE)") as { busy: number }[];
      return outcome!.busy === 0;
    } catch (error) {
      if (!(error instanceof Database.SqliteError)) throw error;
      return false;
    } finally {
      this.#db.pragma("busy_timeout = 0");
    }
  }

  #failure(code: "UNAVAILABLE" | "OUTCOME_UNKNOWN", consequence: string, cause?: unknown): DibsError {
    const why = cause instanceof Error ? ` (${cause.message})` : "";
    return new DibsError(
      code,
      `The disk of ${this.#path} failed to keep a commit${why}. ${consequence} Look after the disk; the store need not be ` +
        `reopened.`,
      { ...(cause !== undefined && { cause }) },
    );
  }
}

/** A new file is not there after a power cut unless its folder is synced too. Not every system can. */
function syncFolder(path: string): void {
  try {
    const folder = openSync(path, "r");
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  } catch {
    // SQLite does not insist on it either.
  }
}
