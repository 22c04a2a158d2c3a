import { DibsError, invalid, isDibsError } from "../../core/errors.ts";
import { Crowded, Overtaken } from "./overtaken.ts";

/** What an error of PostgreSQL, or of the way to it, means for the batch that met it. */
export type Fate =
  /** The server undid the transaction and would have it once more: a deadlock, or somebody was faster. */
  | "again"
  /** The connection is gone or leads to a server that cannot write: another one may do better. */
  | "reconnect"
  /** Others are in its way, who may take a while. */
  | "later"
  /** It will not go better on another connection; the error tells the caller. */
  | "tell";

export function fateOf(error: unknown): Fate {
  if (error instanceof Overtaken) return "again";
  if (error instanceof Crowded) return "later";
  if (isDibsError(error)) return "tell";
  const { code } = error as { code?: string };
  if (code === "40001" || code === "40P01") return "again";
  return isConnectionTrouble(error) ? "reconnect" : "tell";
}

/** Codes of the system's, and those by which a server says that this connection is of no use. */
const TROUBLE = new Set([
  "25006", // a standby: it cannot be written to
  "25P03", // idle in transaction for too long
  "57P01", // ended by an administrator
  "57P02", // a crash
  "57P03", // starting up or shutting down
  "57P05",
  "53300", // too many connections
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
]);
const WORDS =
  /connection (?:terminated|ended|was closed|was given up)|timeout expired|not queryable|socket hang up|client was closed/i;

function isConnectionTrouble(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  if (code !== undefined && (TROUBLE.has(code) || code.startsWith("08"))) return true;
  return typeof message === "string" && WORDS.test(message);
}

/** Nothing of the batch happened; what the caller can do about it, in words. */
export function failureFrom(error: unknown, where: string): unknown {
  if (isDibsError(error)) return error;
  const { code, message } = error as { code?: string; message: string };
  if (fateOf(error) === "reconnect") {
    return failure(
      `PostgreSQL at ${where} cannot be reached or written to (${message}). Nothing was changed. Try again later.`,
      error,
    );
  }
  if (fateOf(error) === "again") {
    return failure(
      `The batch met others' transactions at ${where} again and again (${message}). Nothing was changed. Try again.`,
      error,
    );
  }
  if (fateOf(error) === "later") {
    return failure(
      `A transaction on the store at ${where} has been open for long, and this takes a moment without any. Nothing was ` +
        `changed. Try again later; pg_stat_activity shows whose it is, and what it waits for.`,
      error,
    );
  }
  if (code === "ERR_INVALID_URL") {
    return invalid(
      `The address is none of a PostgreSQL database. Write postgres://user:password@host:5432/database, with signs such as @ ` +
        `and # of a password as %40 and %23.`,
    );
  }
  if (code === undefined || !/^[0-9A-Z]{5}$/.test(code)) return error;
  if (code === "57014" || code === "55P03") {
    return failure(
      `PostgreSQL at ${where} cancelled a statement (${message}). Nothing was changed. Try again; if it stays so, raise ` +
        `${code === "57014" ? "statement_timeout" : "lock_timeout"} for this user.`,
      error,
    );
  }
  if (code === "28P01" || code === "28000" || code === "3D000") {
    return failure(
      `PostgreSQL at ${where} does not let this user in (${message}). Nothing was changed. Look at the user, the password and ` +
        `the database of the address.`,
      error,
      false,
    );
  }
  if (code === "42501") {
    return failure(
      `This user may not do that at ${where} (${message}). Nothing was changed. dibs needs to read and write all tables ` +
        `of its schema, and to make them when it is new.`,
      error,
      false,
    );
  }
  if (code === "42P01" || code === "3F000") {
    return failure(
      `The schema of the store at ${where} is not there any more (${message}). Nothing was changed. Open it anew.`,
      error,
      false,
    );
  }
  if (code.startsWith("53") || code.startsWith("58")) {
    return failure(
      `PostgreSQL at ${where} is out of room or in trouble (${message}). Nothing was changed. Look after the server, then ` +
        `try again.`,
      error,
    );
  }
  return error;
}

/** The answer to a commit was lost with the connection. */
export function outcomeUnknown(where: string, cause: unknown): DibsError {
  return new DibsError(
    "OUTCOME_UNKNOWN",
    `The connection to PostgreSQL at ${where} was lost while a commit was under way: it may or may not have happened. ` +
      `Look before repeating it, or repeat it with an idempotencyKey.`,
    { cause },
  );
}

function failure(message: string, cause: unknown, retryable = true): DibsError {
  return new DibsError("UNAVAILABLE", message, { cause, retryable });
}
