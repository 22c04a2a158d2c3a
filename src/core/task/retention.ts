import type { QueuePolicy } from "../queue/policy.ts";

/** Which ended tasks and runs are pruned. */

/**
 * The rows that are past their age, or beyond the last `count`. `earliest`: rows in the order of their ends; `ended`:
 * the number of all that have ended.
 */
export function pastRetention<Row>(
  earliest: readonly Row[],
  endedAt: (row: Row) => number,
  { age, count }: QueuePolicy["retention"],
  { ended, now }: { ended: number; now: number },
): Row[] {
  return earliest.filter((row, index) => endedAt(row) + age <= now || index < ended - count);
}
