import { type Backoff, UNLIMITED_ATTEMPTS } from "../queue/policy.ts";

/** The delay before the attempt that follows `failures` failures. `random` returns a number from 0 up to 1. */
export function backoffDelay(backoff: Backoff, failures: number, random: () => number): number {
  const steps = Math.max(failures - 1, 0);
  const grown = backoff.type === "fixed" ? backoff.delay : backoff.delay * 2 ** Math.min(steps, 60);
  const capped = Math.min(grown, backoff.max);
  return Math.round(capped * (1 + backoff.jitter * (2 * random() - 1)));
}

/** The single rule for when a task is dead, after a nack, a lost lease or a timeout. */
export function isExhausted(failures: number, maxAttempts: number): boolean {
  return failures >= maxAttempts;
}

/**
 * The workers that a failed task avoids in its next attempt (retry elsewhere). Null if no other live worker serves its
 * queue, so that any of them may have it. `failedBy`: the workers of its failures since it was added or redriven.
 */
export function workersToAvoid(failedBy: readonly string[], serving: readonly string[]): string[] | null {
  const avoid = [...new Set(failedBy)];
  return serving.some((worker) => !avoid.includes(worker)) ? avoid : null;
}

/** "2 of 5" for people, or "2" without a limit. */
export function showAttempt(attempt: number, maxAttempts: number, of = " of "): string {
  return maxAttempts === UNLIMITED_ATTEMPTS ? `${attempt}` : `${attempt}${of}${maxAttempts}`;
}
