import type { MessagePort } from "node:worker_threads";
import type { Reading } from "../../../core/time/clock.ts";
import { type DibsError, type ErrorData, errorFrom, isDibsError } from "../../../core/errors/errors.ts";
import type { Hint } from "../../../engine/hint.ts";
import type { Op } from "../../../engine/engine.ts";
import type { Durability } from "../connection/journal.ts";
import type { PackedOps, PackedOutcomes } from "./pack.ts";

/** Messages between the caller's thread (engine.ts) and the store's (thread.ts). Plain data only. */

/** The data of a thread: it runs as many stores as it is asked to open. */
export const STORE_THREAD = "dibs store";

/** The first request for a store. The others go to its port. */
export interface OpenStore {
  data: ThreadData;
  port: MessagePort;
}

/** The last message to a thread, which has no store left. */
export const END = "end";

/** The data with which a store is opened. */
export interface ThreadData {
  path: string;
  durability: Durability;
  /** False: a file that does not exist is not created. */
  create?: boolean;
  /** A reader executes slow reads, on a connection of its own. */
  role: "writer" | "reader";
  /** The caller injected a clock: every request carries its reading, and the caller times the heartbeats. */
  reading: Reading | null;
}

export type Request =
  /** `sentAt`: awake time by the machine's clock; null if the caller injected a clock. */
  | { id: number; ops: PackedOps; reading: Reading | null; sentAt: number | null }
  /** Heartbeats that the caller times; answered like a batch. */
  | { id: number; beat: number[]; reading: Reading }
  /** Look for notices, because another process has committed. */
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
  /** The outcome of a waiting claim that was retried because another process committed. */
  retried?: Omit<Answer, "id"> & { op: Op<"claim"> };
}

/** An error as data. One that is not a DibsError is a bug, and keeps its stack. */
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
