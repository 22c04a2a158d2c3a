import type { Attempt, TravellingAttempt } from "./task.ts";

/** A ledger as it travels: how long ago, since the clocks of two stores are not compared; fences are each store's own. */
export function asAges(ledger: readonly Attempt[], now: number): TravellingAttempt[] {
  return ledger.map(({ attempt, worker, startedAt, endedAt, outcome, error }) => ({
    attempt,
    worker,
    startedAgo: now - startedAt,
    endedAgo: now - endedAt,
    outcome,
    error,
  }));
}
