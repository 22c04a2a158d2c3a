import { DibsError } from "./errors.ts";
import type { Body } from "./task.ts";

export const LIMITS = {
  /** Tasks in one addMany, and in one claim. */
  addBatch: 10_000,
  claimBatch: 1_000,
  /** A claim may wait this long. */
  claimWaitMs: 60_000,
  priority: 1_000,
  /** Characters. */
  groupKey: 512,
  idempotencyKey: 512,
  workerName: 256,
  progressNote: 4_096,
  /** Headers of one task, as JSON. */
  headerBytes: 16 * 1024,
  /** A schedule with its task, as JSON. */
  scheduleBytes: 1024 * 1024,
  /** What is kept of an error; the rest is cut off. */
  errorMessage: 8 * 1024,
  errorStack: 16 * 1024,
  /** Tasks or patterns on one page. */
  page: 1_000,
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

export function queueFull(queue: string, depth: number, adding: number, most: number): DibsError {
  return new DibsError(
    "QUEUE_FULL",
    `Queue "${queue}" holds ${depth} tasks of at most ${most} (maxDepth); ${adding} more do not fit. ` +
      `Try again when workers have caught up, or raise maxDepth.`,
  );
}
