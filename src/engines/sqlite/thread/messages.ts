import type { Reading } from "../../../core/clock.ts";
import { type DibsError, type ErrorData, errorFrom, isDibsError } from "../../../core/errors.ts";
import type { Hint, Op } from "../../../engine/engine.ts";
import type { Durability } from "../connection/journal.ts";
import type { PackedOps, PackedOutcomes } from "./pack.ts";

/** What passes between the caller's thread (engine.ts) and the store's (thread.ts). Plain data only. */

/** Given to a thread when it starts. */
export interface ThreadData {
  path: string;
  durability: Durability;
  /** False: a file that is not there is not made. */
  create?: boolean;
  /** A reader answers slow questions beside the writer, on a connection of its own. */
  role: "writer" | "reader";
  /** The caller injected a clock: every request carries its reading, and the caller times the heartbeats. */
  reading: Reading | null;
}

export type Request =
  /** `sentAt`: awake, by the machine's own clock; null where the caller has another. */
  | { id: number; ops: PackedOps; reading: Reading | null; sentAt: number | null }
  /** Heartbeats that the caller times; answered like a batch. */
  | { id: number; beat: number[]; reading: Reading }
  /** Notices are to be looked for, because another process has committed. */
  | { id: number; notices: true; reading: Reading }
  | { close: true };

export interface Answer {
  id: number;
  outcomes?: PackedOutcomes;
  failure?: Failure;
}

export type Report = { opened: true } | { failure: Failure } | ThreadReport;

export interface ThreadReport {
  answers: Answer[];
  hint: Hint | null;
  /** What became of a claim that stands, when others had committed. */
  stood?: Omit<Answer, "id"> & { op: Op<"claim"> };
}

/** An error as data. One that is not the product's own is a bug, and keeps its stack for whoever looks for it. */
export type Failure = ErrorData | { code: null; message: string; stack: string };

export function failureOf(error: unknown): Failure {
  if (isDibsError(error)) return { code: error.code, message: error.message, retryable: error.retryable };
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  return { code: null, message, stack: stack ?? message };
}

export function errorOf(failure: Failure): DibsError | Error {
  if (failure.code !== null) return errorFrom(failure);
  const error = new Error(failure.message);
  error.stack = failure.stack;
  return error;
}
