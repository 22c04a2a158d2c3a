import Database from "better-sqlite3";
import { DibsError } from "../../../core/errors/errors.ts";

/** What SQLite's errors mean for a caller. `committing`: the commit itself failed, and may have reached the disk. */
export function failureFrom(error: unknown, path: string, committing = false): unknown {
  if (!(error instanceof Database.SqliteError)) return error;
  const { code } = error;
  const is = (...kinds: string[]): boolean =>
    kinds.some((kind) => code === kind || code.startsWith(`${kind}_`));
  if (is("SQLITE_CORRUPT", "SQLITE_NOTADB")) {
    return failure(
      `The store ${path} is damaged (${error.message}). Nothing was changed. Stop all its processes, keep a copy of ` +
        `the file with its -wal, and restore a backup or try "sqlite3 ${path} .recover".`,
      error,
      false,
    );
  }
  if (is("SQLITE_FULL")) {
    return failure(
      `No room is left on the disk of ${path}. Nothing of this batch was changed, and what was acknowledged before ` +
        `is safe. Make room, then try again: the store need not be reopened.`,
      error,
    );
  }
  if (is("SQLITE_BUSY", "SQLITE_LOCKED")) {
    return failure(
      `The store ${path} was locked by another process for more than 5 seconds. Nothing was changed. Try again; if it ` +
        `stays so, find the process that holds a transaction open.`,
      error,
    );
  }
  if (is("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN")) {
    return failure(
      `The store ${path} cannot be written (${error.message}). Nothing was changed. See that this user may read and ` +
        `write the file, its -wal and -shm, and the folder.`,
      error,
    );
  }
  if (is("SQLITE_IOERR") && committing) {
    return new DibsError(
      "OUTCOME_UNKNOWN",
      `The disk of ${path} failed while a commit was being written (${code}): it may or may not have reached the disk. ` +
        `Look before repeating it, or repeat it with an idempotencyKey.`,
      { cause: error },
    );
  }
  if (is("SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_PROTOCOL")) {
    return failure(
      `The store ${path} could not be read or written (${code}). Nothing of this batch was changed. Check the disk, ` +
        `then try again: the store need not be reopened.`,
      error,
    );
  }
  return error;
}

function failure(message: string, cause: Error, retryable = true): DibsError {
  return new DibsError("UNAVAILABLE", message, { cause, retryable });
}
