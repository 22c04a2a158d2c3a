import type { QueueStats, ServiceTimes } from "../task/task.ts";

/** What passed through a queue in a span of time. */
export interface Flow {
  added: number;
  claimed: number;
  done: number;
  failed: number;
  waitMs: number;
  serviceMs: number;
}

/** Flows are counted in slots of this many milliseconds, and reported over a window. */
export const FLOW_SLOT_MS = 10_000;
export const FLOW_WINDOW_MS = 60_000;

export function noFlow(): Flow {
  return { added: 0, claimed: 0, done: 0, failed: 0, waitMs: 0, serviceMs: 0 };
}

/** Computes rates and means for the stats of every engine, so that all report the same numbers for the same flow. */
export function describeFlow(
  flow: Flow,
  windowMs: number,
): Pick<QueueStats, "rates" | "failureRate" | "serviceTime" | "waitTime"> {
  const seconds = windowMs / 1_000;
  const settled = flow.done + flow.failed;
  return {
    rates: {
      windowMs,
      addedPerSecond: flow.added / seconds,
      donePerSecond: flow.done / seconds,
      failedPerSecond: flow.failed / seconds,
    },
    failureRate: settled === 0 ? null : flow.failed / settled,
    serviceTime: settled === 0 ? null : flow.serviceMs / settled,
    waitTime: flow.claimed === 0 ? null : flow.waitMs / flow.claimed,
  };
}

/**
 * The distribution of service times is computed from the last successes, which are stored anyway. Buckets would cost
 * something at every settlement; this costs only the reader.
 */
export const LATEST_SUCCESSES = 500;

/** @param times of the last successes, in any order */
export function describeServiceTimes(times: number[]): ServiceTimes | null {
  if (times.length === 0) return null;
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1]!;
  const mean = sorted.reduce((sum, each) => sum + each, 0) / sorted.length;
  return { count: sorted.length, mean, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) };
}
