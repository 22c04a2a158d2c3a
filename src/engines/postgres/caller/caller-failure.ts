import { DibsError, isDibsError } from "../../../core/errors/errors.ts";
import { classifyFailure, messageOf } from "../connection/failure.ts";

/** The store that a caller's transaction takes part in. */
export interface StoreName {
  schema: string;
  /** The server's name in error messages, without secrets. */
  where: string;
}

const SHAPE =
  `The function query(sql, params) has to carry the statement out inside your transaction, with the params as they are, and to ` +
  `answer its rows as an array or as { rows }, or a promise of them. The guide to PostgreSQL has one for each library.`;
const UNDONE = `Nothing of your transaction will be kept: roll it back`;

/** `tx` does not have the shape that it must have. */
export function adapterFault(message: string, cause?: unknown): DibsError {
  return new DibsError("INVALID", `${message} ${SHAPE}`, cause === undefined ? {} : { cause });
}

/** The snapshot of the caller's transaction is older than what it needs. */
export function tooOld(what: string): DibsError {
  return new DibsError(
    "UNAVAILABLE",
    `tx sees the store as it was at its first statement, as REPEATABLE READ and SERIALIZABLE do, and ${what} since. Nothing ` +
      `was changed. Roll it back and run it again: a transaction that begins now sees that.`,
  );
}

export function readOnly(cause?: unknown): DibsError {
  return refuse(
    `tx is a transaction that can only read${cause === undefined ? "" : ` (${messageIn(serverError(cause) ?? cause)})`}. Begin one that may write: not ` +
      `READ ONLY, nor on a standby.`,
    cause,
  );
}

/** An error of the caller's connection, from whichever library. */
export function failureWithin(error: unknown, { schema, where }: StoreName): DibsError {
  if (isDibsError(error)) return error;
  const met = serverError(error) ?? (error instanceof Object ? error : new Error(String(error)));
  const code = stateOf(met) ?? "";
  const words = messageIn(met);
  if (code === "40001" || code === "40P01" || (met as Met).code === PRISMA_CONFLICT) {
    return unavailable(
      `tx met other transactions that changed, or wait for, the same (${words}). ${UNDONE}, and run it again.`,
      error,
    );
  }
  if (code === "25P02") {
    return refuse(
      `tx is a transaction that has failed already: PostgreSQL does nothing more in it (${words}). The error to look at is the ` +
        `one that a statement before this met. Roll it back, and run it again without that.`,
      error,
    );
  }
  // The second: a standby cannot read unlogged tables, which the first statement reads.
  if (code === "25006" || (code === "0A000" && classifyFailure(met) === "tell")) return readOnly(error);
  if (code === "42P01" || code === "3F000") {
    return refuse(
      `tx leads to a database without this store (${words}), which is in schema "${schema}" at ${where}. ${UNDONE}, and give ` +
        `one of that database.`,
      error,
    );
  }
  if (code === "42501") {
    return unavailable(
      `The user of tx may not do that in schema "${schema}" (${words}). ${UNDONE}, and give that user the rights that the guide ` +
        `to PostgreSQL names.`,
      error,
      false,
    );
  }
  if (code === "08P01") return notUnderstood(words, error);
  if (classifyFailure(met) === "reconnect") {
    return unavailable(
      `The connection of tx is of no use any more (${words}). ${UNDONE}, and run it again on another.`,
      error,
    );
  }
  if (code.startsWith("42")) return notUnderstood(words, error);
  if (code === "57014" || code === "55P03") {
    const setting = code === "57014" ? "statement_timeout" : "lock_timeout";
    return unavailable(
      `PostgreSQL cancelled a statement of dibs within tx (${words}). ${UNDONE}, and run it again; if it stays so, raise ` +
        `${setting} for it.`,
      error,
    );
  }
  if (code === "")
    return adapterFault(`tx: query(sql, params) failed, and not by PostgreSQL (${words}).`, error);
  return unavailable(
    `PostgreSQL did not do what dibs asked of it within tx (${words}, SQLSTATE ${code}). ${UNDONE}, and run it again; if it ` +
      `stays so, the server's log may say why.`,
    error,
  );
}

interface Met {
  code?: unknown;
  /** Prisma's copy of the server's error. */
  originalCode?: unknown;
  originalMessage?: unknown;
}

/** A write conflict or a deadlock: Prisma does not always say which. */
const PRISMA_CONFLICT = "P2034";
/** Only classes that exist: codes of the operating system, such as EPIPE, and of Prisma have the same form. */
const SQLSTATE = /^(?:\d[\dA-Z]|F0|HV|P0|XX)[\dA-Z]{3}$/;

function stateOf(error: unknown): string | undefined {
  const { code, originalCode } = (error ?? {}) as Met;
  return [originalCode, code].find((each): each is string => typeof each === "string" && SQLSTATE.test(each));
}

function messageIn(error: unknown): string {
  const { originalMessage } = error as Met;
  return typeof originalMessage === "string" ? originalMessage : messageOf(error);
}

/** The properties in which Drizzle, Prisma, TypeORM and Sequelize store the error that they wrap. */
const WRAPS = ["cause", "meta", "driverAdapterError", "driverError", "original"] as const;
const DEEPEST = 4;

function serverError(error: unknown, depth = 0): unknown {
  if (typeof error !== "object" || error === null || depth > DEEPEST) return undefined;
  if (stateOf(error) !== undefined) return error;
  for (const name of WRAPS) {
    const found = serverError((error as Record<string, unknown>)[name], depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The adapter changed the statement, or did not pass its params. */
function notUnderstood(words: string, cause: unknown): DibsError {
  return adapterFault(`tx: PostgreSQL did not understand what query(sql, params) sent it (${words}).`, cause);
}

function refuse(message: string, cause: unknown): DibsError {
  return new DibsError("INVALID", message, cause === undefined ? {} : { cause });
}

function unavailable(message: string, cause: unknown, retryable = true): DibsError {
  return new DibsError("UNAVAILABLE", message, { cause, retryable });
}
