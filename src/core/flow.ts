import type { QueueStats } from "./task.ts";

/** What passed through a queue in a span of time. */
export interface Flow {
  added: number;
  claimed: number;
  done: number;
  failed: number;
  waitMs: number;
  serviceMs: number;
}

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
