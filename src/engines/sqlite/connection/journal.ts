import { closeSync, fdatasyncSync, fsyncSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { DibsError } from "../../../core/errors/errors.ts";
import { isMarked, mark, unmark } from "./failed-sync-mark.ts";
import { JOURNAL_LIMIT } from "./open.ts";

/** `full`: what was acknowledged survives a power cut. `relaxed`: it survives only a crash of every process. */
export type Durability = "full" | "relaxed";

const LIMIT_EVERY_MS = 500;
/** Reads are short. A checkpoint that meets a long one is left to the next time. */
const CHECKPOINT_WAIT_MS = 100;

/**
 * The -wal file: flushes commits to disk, and keeps the file short. SQLite would sync it inside the commit, while every
 * other process waits for the store. Here it is synced right after the commit, and before anything is answered. So
 * other processes may see commits that are not on disk yet; they sync too before they answer.
 *
 * After a failed sync the file may have a hole that no later sync reports. Then the whole journal is copied into the
 * database, whose sync is another one, and starts over. Until then nothing is read or written.
 */
export class Journal {
  readonly #db: Database.Database;
  readonly #path: string;
  /** Undefined if SQLite's own behaviour is enough. */
  readonly #file: number | undefined;
  #limitedAt = Number.NEGATIVE_INFINITY;
  /** What other processes had committed at the last sync. */
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

  /** Call it before anything is read or written. */
  settleDoubt(): void {
    if (this.#isDoubtful && !this.#startOver()) {
      throw this.#failure(
        "UNAVAILABLE",
        "Until it is known to be kept nothing is read or changed; nothing of this batch was.",
      );
    }
  }

  /** Returns when this connection's commits are on disk, or with the error for commits that may not be. */
  sync(): DibsError | undefined {
    const error = this.#flush(fdatasyncSync);
    if (!error || this.#startOver()) return undefined;
    return this.#failure(
      "OUTCOME_UNKNOWN",
      "This batch was carried out, and may or may not survive a power cut. An add is safe to repeat with an idempotencyKey.",
      error,
    );
  }

  /** As `sync`, for commits of other processes that this connection has read. */
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
   * Checkpoints keep the file near its limit, unless reads follow each other so closely that it can never start over.
   * Then reads wait for a moment.
   */
  limit(): void {
    if (performance.now() - this.#limitedAt < LIMIT_EVERY_MS) return;
    this.#limitedAt = performance.now();
    const size = statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
    // A checkpoint that fails may succeed the next time. Callers learn of disk failures by their own commits.
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

  /**
   * Returns whether everything is on disk. The journal's new length must be too: its old content is older than the
   * database.
   */
  #startOver(): boolean {
    if (!this.#checkpoint() || this.#flush(fsyncSync)) return false;
    this.#isDoubtful = false;
    unmark(this.#path);
    return true;
  }

  /** Returns whether the file could start over. */
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
      `The disk of ${this.#path} failed to keep a commit${why}. ${consequence} Check the disk; the store need not be ` +
        `reopened.`,
      { ...(cause !== undefined && { cause }) },
    );
  }
}

/** After a power cut a new file exists only if its folder was synced. Not every system can do that. */
function syncFolder(path: string): void {
  try {
    const folder = openSync(path, "r");
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  } catch {
    // SQLite ignores a failure here too.
  }
}
