import { randomBytes } from "node:crypto";
import { type Duration, parseDuration } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import { LIMITS } from "../core/limits.ts";
import { checkNames, checkNumber, checkText } from "../core/options.ts";
import { show } from "../core/show.ts";

export interface WorkOptions {
  /** Tasks handled at once; 1 unless set. */
  concurrency?: number | undefined;
  /** Tasks fetched ahead, so that the next one is at hand; 0 unless set. */
  prefetch?: number | undefined;
  /** A label for people, in the ledger and in lists. */
  name?: string | undefined;
  /** With several queues: the first one that has a task, or each in turn. */
  order?: "strict" | "fair" | undefined;
}

export interface WorkBatchOptions {
  /** Tasks in a batch, at most; 100 unless set. */
  max?: number | undefined;
  /** Batches handled at once; 1 unless set. */
  concurrency?: number | undefined;
  name?: string | undefined;
}

export interface StopOptions {
  /** How long handlers may take to finish; their signals abort 5 s before the end, and never before four fifths. 30 s unless set. */
  timeout?: Duration | undefined;
}

export interface ResolvedWork {
  concurrency: number;
  prefetch: number;
  name: string;
  /** The instance: what "retry elsewhere" tells apart. */
  id: string;
  order: "strict" | "fair";
  /** Tasks given to one call of the handler; null: one, not as a batch. */
  batch: number | null;
}

export const STOP_TIMEOUT_MS = 30_000;
/** The signals of handlers abort at most this long before the worker leaves them behind, */
const ABORT_BEFORE_MS = 5_000;
/** and for at most this share of the timeout: a short timeout is meant for work, too. */
const ABORT_SHARE = 1 / 5;

/** How long after stop() the signals of handlers abort. */
export function abortAfter(timeout: number): number {
  return timeout - Math.min(ABORT_BEFORE_MS, timeout * ABORT_SHARE);
}

const MOST_AT_ONCE = 10_000;

export function resolveWork(options: WorkOptions = {}): ResolvedWork {
  checkNames(options, ["concurrency", "prefetch", "name", "order"], "work");
  const order = options.order ?? "strict";
  if (order !== "strict" && order !== "fair")
    throw invalid(`order must be "strict" or "fair"; got ${show(order)}.`);
  return {
    concurrency: checkNumber(options.concurrency ?? 1, "concurrency", 1, MOST_AT_ONCE),
    prefetch: checkNumber(options.prefetch ?? 0, "prefetch", 0, MOST_AT_ONCE),
    order,
    batch: null,
    ...identity(options.name),
  };
}

export function resolveWorkBatch(options: WorkBatchOptions = {}): ResolvedWork {
  checkNames(options, ["max", "concurrency", "name"], "workBatch");
  return {
    concurrency: checkNumber(options.concurrency ?? 1, "concurrency", 1, MOST_AT_ONCE),
    prefetch: 0,
    order: "strict",
    batch: checkNumber(options.max ?? 100, "max", 1, LIMITS.claimBatch),
    ...identity(options.name),
  };
}

export function resolveStop(options: StopOptions = {}): number {
  checkNames(options, ["timeout"], "stop");
  return parseDuration(options.timeout ?? STOP_TIMEOUT_MS, "timeout");
}

/** Two workers may share a name, also in one process; the instance's id is the name and something of its own. */
function identity(given: string | undefined): { name: string; id: string } {
  const name =
    given === undefined ? `worker-${process.pid}` : checkText(given, "name", LIMITS.workerName - 16);
  return { name, id: `${name}#${randomBytes(4).toString("hex")}` };
}
