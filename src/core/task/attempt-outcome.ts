import type { Flow } from "../queue/flow.ts";
import type { AttemptOutcome } from "./task.ts";

/** Which ends of an attempt count, and for what. Used by all engines. */

/** The outcomes that count towards maxAttempts. The next attempt avoids the worker (retry elsewhere). */
export const FAILURES = ["failed", "timeout", "lost", "refused"] as const satisfies AttemptOutcome[];
export type Failure = (typeof FAILURES)[number];

/** FAILURES as a list of SQL literals. */
export const FAILURES_SQL = FAILURES.map((outcome) => `'${outcome}'`).join(", ");

export function isFailure(outcome: AttemptOutcome): outcome is Failure {
  return (FAILURES as readonly AttemptOutcome[]).includes(outcome);
}

/**
 * Counts an attempt in the rates of its queue. Attempts that were released, parked or cancelled say nothing about how
 * the queue performs, and are not counted.
 */
export function countAttempt(flow: Flow, outcome: AttemptOutcome, serviceMs: number): void {
  if (outcome === "done") flow.done++;
  else if (outcome === "rejected" || isFailure(outcome)) flow.failed++;
  else return;
  flow.serviceMs += serviceMs;
}
