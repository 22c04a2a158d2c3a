import type { Conflict } from "../../../core/commit.ts";
import { DibsError, invalid, isDibsError } from "../../../core/errors/errors.ts";
import { ExclusiveTimeout, StaleRead } from "./batch-conflicts.ts";

/** What an error of PostgreSQL, or of the connection, means for the batch. */
export type FailureClass =
  /** The server rolled the transaction back because of a deadlock or a race: execute it again. */
  | "again"
  /** The connection is lost, or its server cannot write: retry on another one. */
  | "reconnect"
  /** Another transaction blocks it, perhaps for long: retry later. */
  | "later"
  /** A retry would fail in the same way: the caller gets the error. */
  | "tell";

/** The connection could not be opened. */
export class NotConnected extends Error {
  constructor(cause: unknown) {
    super(messageOf(cause), { cause });
  }

  override get name(): string {
    return "NotConnected";
  }
}

/** The user's function did not give a password. */
export class NoPassword extends Error {
  constructor(cause: unknown) {
    super(messageOf(cause), { cause });
  }

  override get name(): string {
    return "NoPassword";
  }
}

/** An error while connecting. It counts as connection trouble even without a code: errors of TLS have none. */
export function notConnected(met: unknown): unknown {
  return isFault(met) ? met : new NotConnected(met);
}

export function classifyFailure(error: unknown): FailureClass {
  if (error instanceof StaleRead) return "again";
  if (error instanceof ExclusiveTimeout) return "later";
  if (isDibsError(error)) return "tell";
  if (conflictOf(error)) return "again";
  return error instanceof NotConnected || isConnectionTrouble(error) ? "reconnect" : "tell";
}

const CONFLICTS: Record<string, Conflict["conflict"]> = { "40001": "serialization", "40P01": "deadlock" };

/** Why the server rolled a transaction back; undefined for other errors. */
export function conflictOf(error: unknown): Conflict["conflict"] | undefined {
  return CONFLICTS[(error as Met).code ?? ""];
}

/** Fields of errors of `pg` and of the operating system. */
interface Met {
  code?: string;
  message?: string;
  routine?: string;
}

/** Authentication failed. While a store is open this may pass: a password is being changed. */
const NOT_AUTHENTICATED = new Set(["28P01", "28000", "3D000"]);
/** A prepared statement is missing, or is another client's: a pooler has changed the server process. */
const NOT_PREPARED = new Set(["26000", "42P05"]);
/** Codes after which a connection cannot be used any more. */
const TROUBLE = new Set([
  "25006", // a standby, which is read-only
  "25P02", // the transaction has failed before its first statement: it is of the pooler's previous client
  "25P03", // idle in transaction for too long
  "25P04", // the transaction took too long, and the server closed the connection
  "57P01", // ended by an administrator
  "57P02", // a crash
  "57P03", // starting up or shutting down
  "57P04", // the database was dropped: perhaps to be restored
  "57P05",
  "53300", // too many connections
  "XX000", // a pooler has lost its server, or the server process has an internal error
  ...NOT_AUTHENTICATED,
  ...NOT_PREPARED,
]);
/** Functions of the server that report "not supported" although another connection may work. */
const MAY_WORK_ELSEWHERE = new Set([
  "RevalidateCachedQuery", // a newer dibs has changed a table: statements prepared before fail on this connection
  "get_relation_info", // a standby, which cannot read unlogged tables
]);
/** Codes of the operating system, such as ECONNRESET, or ENOENT for a missing socket; and of Node's streams and TLS. */
const OF_THE_SYSTEM = /^(?:E(?!RR_)[A-Z0-9_]+|ERR_(?:SSL|TLS|STREAM)_\w+)$/;
const SQLSTATE = /^[0-9A-Z]{5}$/;
const WORDS =
  /connection (?:terminated|ended|was closed|was given up)|timeout expired|not queryable|socket hang up|client was closed/i;

function isConnectionTrouble(error: unknown): boolean {
  const { code, message, routine } = error as Met;
  if (code === "0A000") return MAY_WORK_ELSEWHERE.has(routine ?? "");
  if (code !== undefined && (TROUBLE.has(code) || code.startsWith("08") || OF_THE_SYSTEM.test(code)))
    return true;
  return typeof message === "string" && WORDS.test(message);
}

/** A bug, in dibs or `pg`. It must not be taken for a server that is unreachable. */
function isFault(error: unknown): boolean {
  if (isBadAddress(error)) return false;
  return [TypeError, RangeError, ReferenceError, SyntaxError].some((kind) => error instanceof kind);
}

function isBadAddress(error: unknown): boolean {
  const { code } = error as Met;
  return code === "ERR_INVALID_URL" || code === "ERR_SOCKET_BAD_PORT" || error instanceof URIError;
}

/** A file that the address names, such as a certificate, is read before the connection is opened. */
function isUnreadable(error: unknown): error is NodeJS.ErrnoException {
  const { syscall, code = "" } = error as NodeJS.ErrnoException;
  return (syscall === "open" || syscall === "read") && ["ENOENT", "EACCES", "EISDIR"].includes(code);
}

/** If several addresses of a host were tried, the error has a code and no message. */
export function messageOf(error: unknown): string {
  const { code, message } = error as Met;
  return message || code || String(error);
}

/** The error that the caller gets: nothing of the batch was done, and what to do about it. Bugs are passed on. */
export function failureFrom(error: unknown, where: string): unknown {
  if (isDibsError(error) || isFault(error)) return error;
  const met = error instanceof NotConnected ? error.cause : error;
  const { code = "" } = met as Met;
  if (isBadAddress(met)) return badAddress();
  if (isUnreadable(met)) return unreadable(met);
  if (NOT_AUTHENTICATED.has(code)) return notAuthenticated(met, where, true);
  if (NOT_PREPARED.has(code)) return notPrepared(met, where);
  if (met instanceof NoPassword) return noPassword(met, where);
  const failureClass = classifyFailure(error);
  if (failureClass === "reconnect") {
    return failure(
      `PostgreSQL at ${where} cannot be reached or written to (${messageOf(met)}). Nothing was changed. Try again later.`,
      met,
    );
  }
  if (failureClass === "again") {
    return failure(
      `The batch met others' transactions at ${where} again and again (${messageOf(met)}). Nothing was changed. Try again.`,
      met,
    );
  }
  if (failureClass === "later") {
    return failure(
      `A transaction on the store at ${where} has been open for long, and this takes a moment without any. Nothing was ` +
        `changed. Try again later; pg_stat_activity shows whose it is, and what it waits for.`,
      met,
    );
  }
  return refused(met, where);
}

/**
 * The error of opening a store. If authentication fails, the address is most likely wrong, and a retry does not help.
 */
export function refusalFrom(error: unknown, where: string): unknown {
  if (isDibsError(error)) return error;
  const met = error instanceof NotConnected ? error.cause : error;
  const { code = "" } = met as Met;
  const words = messageOf(met);
  // The error of `pg` if the password is missing.
  if (NOT_AUTHENTICATED.has(code) || words.startsWith("SASL")) return notAuthenticated(met, where, false);
  const isCertain = error instanceof NotConnected && !isBadAddress(met) && !isConnectionTrouble(met);
  if (!isCertain || SQLSTATE.test(code) || met instanceof NoPassword) return failureFrom(met, where);
  return failure(
    `No connection to PostgreSQL at ${where} came about (${words}). Nothing was changed. Look at the address and its ` +
      `sslmode, and at the server's certificate.`,
    met,
    false,
  );
}

/** The server refused a statement: a retry would fail in the same way. */
function refused(error: unknown, where: string): DibsError {
  const { code = "" } = error as Met;
  const message = messageOf(error);
  if (code === "57014" || code === "55P03") {
    return failure(
      `PostgreSQL at ${where} cancelled a statement (${message}). Nothing was changed. Try again; if it stays so, raise ` +
        `${code === "57014" ? "statement_timeout" : "lock_timeout"} for this user.`,
      error,
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
      `The schema of the store at ${where} is not there any more (${message}). Nothing was changed. Open it again.`,
      error,
      false,
    );
  }
  if (code.startsWith("42") || code === "0A000") {
    return failure(
      `PostgreSQL at ${where} does not know what dibs asks for (${message}). Nothing was changed. See that nobody has ` +
        `changed the tables of its schema and that this dibs is as new as they are, then open it again.`,
      error,
      false,
    );
  }
  if (/^(?:53|58|XX)/.test(code)) {
    return failure(
      `PostgreSQL at ${where} is out of room or in trouble (${message}). Nothing was changed. Check the server, then ` +
        `try again.`,
      error,
    );
  }
  return failure(
    `PostgreSQL at ${where} did not do what dibs asked of it (${message}${SQLSTATE.test(code) ? `, SQLSTATE ${code}` : ""}). ` +
      `Nothing was changed. Try again; if it stays so, the server's log may say why.`,
    error,
  );
}

function badAddress(): DibsError {
  return invalid(
    `The address is none of a PostgreSQL database. Write postgres://user:password@host:5432/database, with signs such as @ ` +
      `and # of a password as %40 and %23.`,
  );
}

function unreadable({ path, code }: NodeJS.ErrnoException): DibsError {
  return invalid(
    `The file ${path ?? "of a certificate"} that the address names cannot be read (${code}). Nothing was changed. Look at its sslrootcert, ` +
      `sslcert and sslkey.`,
  );
}

function notAuthenticated(error: unknown, where: string, retryable: boolean): DibsError {
  return failure(
    `PostgreSQL at ${where} does not let this user in (${messageOf(error)}). Nothing was changed. Look at the user, the ` +
      `password and the database of the address.`,
    error,
    retryable,
  );
}

function noPassword({ message, cause }: NoPassword, where: string): DibsError {
  return failure(
    `There is no password for PostgreSQL at ${where}: the function that gives it failed (${message}). Nothing was ` +
      `changed. It must return a text, or a promise of one.`,
    cause,
  );
}

function notPrepared(error: unknown, where: string): DibsError {
  return failure(
    `What leads to PostgreSQL at ${where} does not keep prepared statements (${messageOf(error)}). Nothing was changed. ` +
      `Behind a transaction pooler such as PgBouncer open the store with listen: false.`,
    error,
  );
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
