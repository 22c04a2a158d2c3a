import { DibsError } from "../errors/errors.ts";
import type { Body, Step } from "../task/task.ts";

// The sizes above which input is refused. Broker and doors check them before a store is asked.

export const LIMITS = {
  /** Tasks in one addMany, and in one claim. */
  addBatch: 10_000,
  claimBatch: 1_000,
  /** How long a claim call may wait. */
  claimWaitMs: 60_000,
  /**
   * How long a worker's claim call may wait. It can be longer, because the worker's session shows that it is alive.
   * With one minute, a thousand idle workers would cost a server more than their heartbeats.
   */
  workerWaitMs: 300_000,
  priority: 1_000,
  /** Cost of one task, in the unit of its queue's rate limit. */
  cost: 1e9,
  /** Lengths in characters. */
  groupKey: 512,
  idempotencyKey: 512,
  workerName: 256,
  progressNote: 4_096,
  /** Characters of one line of a task's log, which is cut off there; and lines of all attempts of a task. */
  logLine: 2_000,
  logLines: 500,
  stepName: 256,
  /**
   * Bytes of one step's result or one signal's value; below: number and total bytes of all steps and signals of a task.
   */
  stepBytes: 256 * 1024,
  steps: 1_000,
  /** Children of one task. */
  children: 1_000,
  allStepBytes: 4 * 1024 * 1024,
  /** Bytes of all part results of a run at the stage that joins them, and of the array that each() splits. */
  gatheredBytes: 16 * 1024 * 1024,
  /** Headers of one task, as JSON. */
  headerBytes: 16 * 1024,
  /** A schedule with its task, as JSON. */
  scheduleBytes: 1024 * 1024,
  /** Longer error messages and stacks are cut off here. */
  errorMessage: 8 * 1024,
  errorStack: 16 * 1024,
  /** Tasks or patterns on one page. */
  page: 1_000,
  /** Approximate bytes of one page, and of one claim's tasks: core/answer/answer-size.ts. A single row may be larger. */
  answerBytes: 4 * 1024 * 1024,
  /** In lists, a payload or result with more bytes than this is shortened to its first characters: core/answer/preview.ts. */
  previewAbove: 1_024,
  preview: 256,
} as const;

/** Counts the exact bytes only if the cheap bound does not decide: UTF-8 has at most 3 bytes per UTF-16 unit. */
export function isLarger(body: Body, most: number): boolean {
  if (typeof body !== "string") return body.byteLength > most;
  return body.length > most || (body.length * 3 > most && byteLength(body) > most);
}

export function byteLength(body: Body): number {
  return typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
}

export function tooLarge(what: string, body: Body, most: number, queue: string): DibsError {
  return new DibsError(
    "PAYLOAD_TOO_LARGE",
    `${what} has ${byteLength(body)} bytes; queue "${queue}" takes at most ${most} (maxPayload). ` +
      `Store large data elsewhere and pass a reference, or raise maxPayload.`,
  );
}

export function tooMuchGathered(bytes: number): DibsError {
  return new DibsError(
    "PAYLOAD_TOO_LARGE",
    `The parts of this run have ${bytes} bytes together; at most ${LIMITS.gatheredBytes} are allowed. ` +
      `Store large data elsewhere and pass references.`,
  );
}

/** @param steps of a task, or signals of a run, with the new one. Children have a limit of their own. */
export function checkStepRoom(steps: readonly { kind?: Step["kind"]; value: Body | null }[]): void {
  const counted = steps.filter(({ kind }) => kind !== "child");
  checkStepSizes(
    counted.length,
    counted.reduce((sum, { value }) => sum + (value === null ? 0 : byteLength(value)), 0),
  );
}

export function checkStepSizes(count: number, bytes: number): void {
  if (count > LIMITS.steps || bytes > LIMITS.allStepBytes) throw tooManySteps(count, bytes);
}

function tooManySteps(count: number, bytes: number): DibsError {
  return new DibsError(
    "PAYLOAD_TOO_LARGE",
    `With this one the task, or the run, would have ${count} steps and signals of ${bytes} bytes; it may have ${LIMITS.steps} of ` +
      `${LIMITS.allStepBytes} in all. Store large data elsewhere and keep a reference, or let one step do the work of several.`,
  );
}

export function queueFull(queue: string, depth: number, adding: number, most: number): DibsError {
  // Adding a single task to a queue with maxDepth 0 stays retryable: an operator sets 0 to stop adds for a while.
  if (adding > Math.max(most, 1)) {
    return new DibsError(
      "QUEUE_FULL",
      `Queue "${queue}" takes at most ${most} tasks (maxDepth); ${adding} at once never fit. Add fewer at a time, or raise maxDepth.`,
      { retryable: false },
    );
  }
  return new DibsError(
    "QUEUE_FULL",
    `Queue "${queue}" holds ${depth} tasks of at most ${most} (maxDepth); ${adding} more do not fit. ` +
      `Try again when workers have caught up, or raise maxDepth.`,
  );
}

export function queueFullOfBytes(queue: string, stored: number, adding: number, most: number): DibsError {
  return new DibsError(
    "QUEUE_FULL",
    `Queue "${queue}" holds payloads of ${stored} bytes and takes at most ${most} (maxBytes); ${adding} more do not fit. ` +
      `Wait until workers have taken some, or raise maxBytes.`,
    { retryable: adding <= most },
  );
}
