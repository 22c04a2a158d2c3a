import type { QueueFigures } from "../core/task/task.ts";
import type { HistorySeries } from "./contract.ts";

/** A value for each series. Minutes are stored with flows as counts; recent values have them per second. */
export type Sample = Record<HistorySeries, number | null>;

export function rateSample({
  depth,
  oldestAge,
  rates,
  waitTime,
  serviceTime,
  workers,
}: QueueFigures): Sample {
  return {
    ...{ depth: depth.ready + depth.waiting, oldest: oldestAge ?? 0, dead: depth.dead, workers },
    ...{ added: rates.addedPerSecond, done: rates.donePerSecond, failed: rates.failedPerSecond },
    ...{ wait: waitTime, service: serviceTime },
  };
}

/** Flows as counts of the minute. */
export function countSample(figures: QueueFigures): Sample {
  const sample = rateSample(figures);
  const seconds = figures.rates.windowMs / 1_000;
  const { added, done, failed } = sample;
  return { ...sample, added: added! * seconds, done: done! * seconds, failed: failed! * seconds };
}
