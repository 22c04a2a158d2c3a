import type { QueueSummary } from "../core/answer/page.ts";
import type { QueueStats } from "../core/task/task.ts";
import { openingAt } from "../core/queue/window.ts";
import type { Observed } from "./decide.ts";

type Seen = Omit<Observed, "workers" | "sinceUp" | "sinceDown" | "recentNeed">;

/** What a pool sees of its queues, as one. `now`: milliseconds since 1970. */
export function observeQueues(
  stats: readonly QueueStats[],
  queues: readonly QueueSummary[],
  now: number,
): Seen {
  const blocks = stats.map((each) => blockedFor(each, now));
  // Tasks of a queue in which none may start do not need a worker.
  const startable = stats.filter((_, at) => blocks[at] === 0);
  const ages = startable.flatMap(({ oldestAge }) => oldestAge ?? []);
  return {
    arrivalRate: sum(stats.map(({ rates }) => rates.addedPerSecond + rates.failedPerSecond)),
    serviceTime: serviceTimeOf(stats),
    depth: sum(startable.map(({ depth }) => depth.ready)),
    running: sum(stats.map(({ depth }) => depth.claimed)),
    oldestAge: ages.length === 0 ? null : Math.max(...ages),
    windowOpen: windowOf(queues, now),
    blockedFor: blocks.length === 0 ? 0 : Math.min(...blocks),
    concurrencyLimit: limitOf(queues, stats.length),
  };
}

function blockedFor({ paused, heldBack }: QueueStats, now: number): number {
  if (paused) return Number.POSITIVE_INFINITY;
  if (heldBack === null || heldBack.until === null || heldBack.by === "groups") return 0;
  return Math.max(0, heldBack.until - now);
}

/** Weighted by the attempts that have ended. If none has lately, what the last successes took. */
function serviceTimeOf(stats: readonly QueueStats[]): number | null {
  const measured = stats.flatMap(({ serviceTime, rates }) =>
    serviceTime === null ? [] : [{ time: serviceTime, weight: rates.donePerSecond + rates.failedPerSecond }],
  );
  const stored = stats.flatMap(({ serviceTimes }) =>
    serviceTimes === null ? [] : [{ time: serviceTimes.mean, weight: serviceTimes.count }],
  );
  const used = measured.length > 0 ? measured : stored;
  const weight = sum(used.map((each) => each.weight));
  return weight === 0 ? null : sum(used.map((each) => each.time * each.weight)) / weight;
}

function windowOf(queues: readonly QueueSummary[], now: number): boolean | null {
  const windows = queues.flatMap(({ policy }) => policy.window ?? []);
  return windows.length === 0 ? null : windows.some((window) => openingAt(window, now).open);
}

/** null if a queue has no limit, or does not exist yet. */
function limitOf(queues: readonly QueueSummary[], count: number): number | null {
  const limits = queues.flatMap(({ policy }) => policy.maxConcurrency ?? []);
  return limits.length < count ? null : sum(limits);
}

function sum(values: number[]): number {
  return values.reduce((total, each) => total + each, 0);
}
