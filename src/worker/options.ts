import { randomBytes } from "node:crypto";
import { type Duration, parseDuration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { LIMITS } from "../core/input/limits.ts";
import { checkNames, checkNumber, checkText } from "../core/input/options.ts";
import { show } from "../core/errors/show.ts";
import { checkHooks, type WorkerHooks } from "./hooks.ts";

/** Options of `work`. Without type arguments, as for several queues, hooks get tasks of unknown data. */
export interface WorkOptions<Data = unknown, Result = unknown> {
  /** Tasks handled at once; default 1. */
  concurrency?: number | undefined;
  /**
   * Tasks claimed ahead, so that the next one starts at once. Default "auto": as many as will start within 10 ms, by the
   * times that the worker has seen; none if handlers take longer.
   */
  prefetch?: number | "auto" | undefined;
  /** A label for people, in the ledger and in lists. */
  name?: string | undefined;
  /** With several queues: take from the first queue that has a task, or from each in rotation. */
  order?: "strict" | "fair" | undefined;
  /** Stops by itself after this many tasks; unlimited unless set. */
  limit?: number | undefined;
  /** Hooks: called when a task starts, is done, has failed or is dead. */
  on?: WorkerHooks<Data, Result> | undefined;
}

export interface WorkBatchOptions<Data = unknown, Result = unknown> {
  /** Most tasks in a batch; default 100. */
  max?: number | undefined;
  /** Batches handled at once; default 1. */
  concurrency?: number | undefined;
  name?: string | undefined;
  /** As for `work`, for each task of a batch. */
  on?: WorkerHooks<Data, Result> | undefined;
}

export interface StopOptions {
  /**
   * How long handlers may take to finish; default 30 s. Their signals abort 5 s before the end, but not before four
   * fifths of it.
   */
  timeout?: Duration | undefined;
}

export interface ResolvedWork {
  concurrency: number;
  prefetch: number | "auto";
  name: string;
  /** The instance, for "retry elsewhere". */
  id: string;
  order: "strict" | "fair";
  /** Tasks per call of the handler; null: one task, not as a batch. */
  batch: number | null;
  /** Tasks after which it stops by itself; null: never. */
  limit: number | null;
  hooks: WorkerHooks;
  /** Logs the failures of its tasks. False if its caller reports them. */
  isLogging: boolean;
}

const STOP_TIMEOUT_MS = 30_000;
/** The signals of handlers abort at most this long before the worker gives up waiting for them, */
const ABORT_BEFORE_MS = 5_000;
/** and at most this share of the timeout: most of a short timeout is for work. */
const ABORT_SHARE = 1 / 5;

/** How long after stop() the signals of handlers abort. */
export function abortAfter(timeout: number): number {
  return timeout - Math.min(ABORT_BEFORE_MS, timeout * ABORT_SHARE);
}

const MOST_AT_ONCE = 10_000;

export function resolveWork(options: WorkOptions<never, never> = {}): ResolvedWork {
  checkNames(options, ["concurrency", "prefetch", "name", "order", "limit", "on"], "work");
  const order = options.order ?? "strict";
  if (order !== "strict" && order !== "fair")
    throw invalid(`order must be "strict" or "fair"; got ${show(order)}.`);
  return {
    concurrency: checkNumber(options.concurrency ?? 1, "concurrency", 1, MOST_AT_ONCE),
    prefetch: checkPrefetch(options.prefetch ?? "auto"),
    order,
    batch: null,
    limit:
      options.limit === undefined ? null : checkNumber(options.limit, "limit", 1, Number.MAX_SAFE_INTEGER),
    ...observing(options.on),
    ...identity(options.name),
  };
}

function checkPrefetch(given: number | "auto"): number | "auto" {
  if (given === "auto") return given;
  if (typeof given !== "number") throw invalid(`prefetch must be "auto" or a number; got ${show(given)}.`);
  return checkNumber(given, "prefetch", 0, MOST_AT_ONCE);
}

export function resolveWorkBatch(options: WorkBatchOptions<never, never> = {}): ResolvedWork {
  checkNames(options, ["max", "concurrency", "name", "on"], "workBatch");
  return {
    concurrency: checkNumber(options.concurrency ?? 1, "concurrency", 1, MOST_AT_ONCE),
    prefetch: 0,
    order: "strict",
    limit: null,
    batch: checkNumber(options.max ?? 100, "max", 1, LIMITS.claimBatch),
    ...observing(options.on),
    ...identity(options.name),
  };
}

function observing(on: WorkerHooks<never, never> = {}): { hooks: WorkerHooks; isLogging: boolean } {
  checkHooks(on);
  return { hooks: on as WorkerHooks, isLogging: true };
}

export function resolveStop(options: StopOptions = {}): number {
  checkNames(options, ["timeout"], "stop");
  return parseDuration(options.timeout ?? STOP_TIMEOUT_MS, "timeout");
}

/** Several workers may share a name, also in one process. The id is the name and a random part. */
function identity(given: string | undefined): { name: string; id: string } {
  const name =
    given === undefined ? `worker-${process.pid}` : checkText(given, "name", LIMITS.workerName - 16);
  return { name, id: `${name}#${randomBytes(4).toString("hex")}` };
}
