import type { Backoff } from "./policy.ts";

/** The wait before the attempt that follows `failures` failures. `random` gives a number from 0 up to 1. */
export function backoffDelay(backoff: Backoff, failures: number, random: () => number): number {
  const steps = Math.max(failures - 1, 0);
  const grown = backoff.type === "fixed" ? backoff.delay : backoff.delay * 2 ** Math.min(steps, 60);
  const capped = Math.min(grown, backoff.max);
  return Math.round(capped * (1 + backoff.jitter * (2 * random() - 1)));
}

/** The one rule for when a task is dead: used for a nack, a lost lease and a timeout alike. */
export function isExhausted(failures: number, maxAttempts: number): boolean {
  return failures >= maxAttempts;
}
