import { DibsError } from "./errors.ts";
import type { Body } from "./task.ts";

export const LIMITS = {
  /** Tasks in one addMany, and in one claim. */
  addBatch: 10_000,
  claimBatch: 1_000,
  /** A claim may wait this long. */
  claimWaitMs: 60_000,
  /**
   * And that of a worker so long: whether it is still there its session tells. A thousand idle ones that ask once a minute
   * cost a server more than their signs of life.
   */
  workerWaitMs: 300_000,
  priority: 1_000,
  /** Of one task, in the unit of its queue's limits. */
  cost: 1e9,
  /** Characters. */
  groupKey: 512,
  idempotencyKey: 512,
  workerName: 256,
  progressNote: 4_096,
  stepName: 256,
  /** What one step returned, or one signal brought; and all of a task's together. */
  stepBytes: 256 * 1024,
  steps: 1_000,
  allStepBytes: 4 * 1024 * 1024,
  /** What all parts of a run bring to the stage that joins them, and what each() makes into parts. */
  gatheredBytes: 16 * 1024 * 1024,
  /** Headers of one task, as JSON. */
  headerBytes: 16 * 1024,
  /** A schedule with its task, as JSON. */
  scheduleBytes: 1024 * 1024,
  /** What is kept of an error; the rest is cut off. */
  errorMessage: 8 * 1024,
  errorStack: 16 * 1024,
  /** Tasks or patterns on one page. */
  page: 1_000,
  /** Bytes of one page, and of one claim's tasks, about: core/answer-size.ts. One row may be larger. */
  answerBytes: 4 * 1024 * 1024,
  /** In lists, a payload or result of more bytes than this comes as its first characters: core/preview.ts. */
  previewAbove: 1_024,
  preview: 256,
} as const;

/** Exact size in bytes, counted only where a cheap bound does not settle it: UTF-8 has at most 3 a unit. */
export function isLarger(body: Body, most: number): boolean {
  if (typeof body !== "string") return body.byteLength > most;
  return body.length > most || (body.length * 3 > most && byteLength(body) > most);
}

export function byteLength(body: Body): number {
  return typeof body === "string" ? new TextEncoder().encode(body).byteLength : body.byteLength;
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
    `The parts of this run come to ${bytes} bytes together; they may have ${LIMITS.gatheredBytes}. ` +
      `Store large data elsewhere and pass references.`,
  );
}

export function tooManySteps(count: number, bytes: number): DibsError {
  return new DibsError(
    "PAYLOAD_TOO_LARGE",
    `With this one the task would have ${count} steps and signals of ${bytes} bytes; it may have ${LIMITS.steps} of ` +
      `${LIMITS.allStepBytes} in all. Store large data elsewhere and keep a reference, or let one step do the work of several.`,
  );
}

export function queueFull(queue: string, depth: number, adding: number, most: number): DibsError {
  // A single one that does not fit is kept out on purpose: by a queue that is to take none for a while.
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
