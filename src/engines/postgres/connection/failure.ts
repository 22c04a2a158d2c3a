import type { Conflict } from "../../../core/commit.ts";
import { DibsError, invalid, isDibsError } from "../../../core/errors.ts";
import { ExclusiveTimeout, StaleRead } from "./batch-conflicts.ts";

/** What an error of PostgreSQL, or of the way to it, means for the batch that met it. */
export type FailureClass =
  /** The server undid the transaction and would have it once more: a deadlock, or somebody was faster. */
  | "again"
  /** The connection is gone or leads to a server that cannot write: another one may do better. */
  | "reconnect"
  /** Others are in its way, who may take a while. */
  | "later"
  /** It will not go better on another connection; the error tells the caller. */
  | "tell";

/** No connection came about, for a reason of the server's or of the way to it. */
export class NotConnected extends Error {
  constructor(cause: unknown) {
    super(wordsOf(cause), { cause });
  }

  override get name(): string {
    return "NotConnected";
  }
}

/** What was met while connecting. In there an error needs no code to be trouble: TLS has words only. */
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

/** What the server undid a transaction for; undefined for other errors. */
export function conflictOf(error: unknown): Conflict["conflict"] | undefined {
  return CONFLICTS[(error as Met).code ?? ""];
}

/** What pg's errors, and the system's, may have. */
interface Met {
  code?: string;
  message?: string;
  routine?: string;
}

/** By which a server says who may not come in. While a store is open that may pass: a password is being changed. */
const NOT_LET_IN = new Set(["28P01", "28000", "3D000"]);
/** A statement that this connection prepared is not known, or is another's: a pooler has changed the server under it. */
const MIXED_UP = new Set(["26000", "42P05"]);
/** By which a server says that this connection is of no use. */
const TROUBLE = new Set([
  "25006", // a standby: it cannot be written to
  "25P02", // in a transaction that failed, and not here: that of a pooler's client before us
  "25P03", // idle in transaction for too long
  "25P04", // a transaction that took too long: the server has hung up
  "57P01", // ended by an administrator
  "57P02", // a crash
  "57P03", // starting up or shutting down
  "57P04", // the database was dropped: perhaps to be restored
  "57P05",
  "53300", // too many connections
  "XX000", // poolers say so when they have lost their server; and whatever the server's process mixed up goes with it
  ...NOT_LET_IN,
  ...MIXED_UP,
]);
/** Of what is not supported: where the server looked when it said so. */
const OF_ANOTHER = new Set([
  "RevalidateCachedQuery", // a newer dibs has changed a table: what was prepared before is of no use, on this connection only
  "get_relation_info", // a standby: nobody may look into a table that is not logged
]);
/** Codes of the system's, such as ECONNRESET or ENOENT for a socket that is not there; and of Node's streams and TLS. */
const OF_THE_SYSTEM = /^(?:E(?!RR_)[A-Z0-9_]+|ERR_(?:SSL|TLS|STREAM)_\w+)$/;
const SQLSTATE = /^[0-9A-Z]{5}$/;
const WORDS =
  /connection (?:terminated|ended|was closed|was given up)|timeout expired|not queryable|socket hang up|client was closed/i;

function isConnectionTrouble(error: unknown): boolean {
  const { code, message, routine } = error as Met;
  if (code === "0A000") return OF_ANOTHER.has(routine ?? "");
  if (code !== undefined && (TROUBLE.has(code) || code.startsWith("08") || OF_THE_SYSTEM.test(code)))
    return true;
  return typeof message === "string" && WORDS.test(message);
}

/** A mistake in a program, ours or pg's: it is to be seen as what it is, and not taken for a server that is away. */
function isFault(error: unknown): boolean {
  if (isBadAddress(error)) return false;
  return [TypeError, RangeError, ReferenceError, SyntaxError].some((kind) => error instanceof kind);
}

function isBadAddress(error: unknown): boolean {
  const { code } = error as Met;
  return code === "ERR_INVALID_URL" || code === "ERR_SOCKET_BAD_PORT" || error instanceof URIError;
}

/** A file that the address names: it is read before anybody connects. A socket is read, too, and is connected to. */
function isUnreadable(error: unknown): error is NodeJS.ErrnoException {
  const { syscall, code = "" } = error as NodeJS.ErrnoException;
  return (syscall === "open" || syscall === "read") && ["ENOENT", "EACCES", "EISDIR"].includes(code);
}

/** Where several addresses of a host were tried, the error has no words of its own. */
export function wordsOf(error: unknown): string {
  const { code, message } = error as Met;
  return message || code || String(error);
}

/** Nothing of the batch happened; what the caller can do about it, in words. A fault is told as it is. */
export function failureFrom(error: unknown, where: string): unknown {
  if (isDibsError(error) || isFault(error)) return error;
  const met = error instanceof NotConnected ? error.cause : error;
  const { code = "" } = met as Met;
  if (isBadAddress(met)) return badAddress();
  if (isUnreadable(met)) return unreadable(met);
  if (NOT_LET_IN.has(code)) return notLetIn(met, where, true);
  if (MIXED_UP.has(code)) return mixedUp(met, where);
  const fate = classifyFailure(error);
  if (fate === "reconnect") {
    return failure(
      `PostgreSQL at ${where} cannot be reached or written to (${wordsOf(met)}). Nothing was changed. Try again later.`,
      met,
    );
  }
  if (fate === "again") {
    return failure(
      `The batch met others' transactions at ${where} again and again (${wordsOf(met)}). Nothing was changed. Try again.`,
      met,
    );
  }
  if (fate === "later") {
    return failure(
      `A transaction on the store at ${where} has been open for long, and this takes a moment without any. Nothing was ` +
        `changed. Try again later; pg_stat_activity shows whose it is, and what it waits for.`,
      met,
    );
  }
  return refused(met, where);
}

/**
 * The same while a store is being opened: who is not let in has most likely the wrong address, and waiting does not mend
 * it.
 */
export function refusalFrom(error: unknown, where: string): unknown {
  if (isDibsError(error)) return error;
  const met = error instanceof NotConnected ? error.cause : error;
  const { code = "" } = met as Met;
  const words = wordsOf(met);
  // pg itself says so of a password that was not given.
  if (NOT_LET_IN.has(code) || words.startsWith("SASL")) return notLetIn(met, where, false);
  const isCertain = error instanceof NotConnected && !isBadAddress(met) && !isConnectionTrouble(met);
  if (!isCertain || SQLSTATE.test(code)) return failureFrom(met, where);
  return failure(
    `No connection to PostgreSQL at ${where} came about (${words}). Nothing was changed. Look at the address and its ` +
      `sslmode, and at the server's certificate.`,
    met,
    false,
  );
}

/** The server carried a statement out and said no; it will not go better on another connection. */
function refused(error: unknown, where: string): DibsError {
  const { code = "" } = error as Met;
  const message = wordsOf(error);
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
      `The schema of the store at ${where} is not there any more (${message}). Nothing was changed. Open it anew.`,
      error,
      false,
    );
  }
  if (code.startsWith("42") || code === "0A000") {
    return failure(
      `PostgreSQL at ${where} does not know what dibs asks for (${message}). Nothing was changed. See that nobody has ` +
        `changed the tables of its schema and that this dibs is as new as they are, then open it anew.`,
      error,
      false,
    );
  }
  if (/^(?:53|58|XX)/.test(code)) {
    return failure(
      `PostgreSQL at ${where} is out of room or in trouble (${message}). Nothing was changed. Look after the server, then ` +
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

function notLetIn(error: unknown, where: string, retryable: boolean): DibsError {
  return failure(
    `PostgreSQL at ${where} does not let this user in (${wordsOf(error)}). Nothing was changed. Look at the user, the ` +
      `password and the database of the address.`,
    error,
    retryable,
  );
}

function mixedUp(error: unknown, where: string): DibsError {
  return failure(
    `What leads to PostgreSQL at ${where} does not keep prepared statements (${wordsOf(error)}). Nothing was changed. ` +
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
