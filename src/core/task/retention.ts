import type { QueuePolicy } from "../queue/policy.ts";

/** Which ended tasks and runs are pruned. */

/** Those past their age, or beyond the last `count`. `earliest`: the earliest ends, in that order; `ended`: of all. */
export function pastRetention<Row>(
  earliest: readonly Row[],
  endedAt: (row: Row) => number,
  { age, count }: QueuePolicy["retention"],
  { ended, now }: { ended: number; now: number },
): Row[] {
  return earliest.filter((row, index) => endedAt(row) + age <= now || index < ended - count);
}
