import { type Duration, parseDuration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { checkNumber } from "../core/input/options.ts";
import { show } from "../core/errors/show.ts";
import type { PoolPolicy } from "./decide.ts";

/** How a pool is sized, as users write it. Pools, the simulation and the shell parse it here. */
export interface PoolPolicyOptions {
  /** `"latency"` (default): waits stay below the target. `"cost"`: work accumulates, and workers start for a batch. */
  mode?: "latency" | "cost" | undefined;
  /** The fewest workers, default 0, and the most, default 10. */
  min?: number | undefined;
  max?: number | undefined;
  /** Tasks that one worker executes at a time, default 1. */
  concurrency?: number | undefined;
  /** 95 % of the tasks start within this time, default 5 s. In cost mode: a batch is finished within it, default 5 min. */
  targetWait?: Duration | undefined;
  /** Instead of `targetWait`: one worker for this many tasks that wait or are being executed. */
  tasksPerWorker?: number | undefined;
  /** Grow above this utilisation, default 0.85, and shrink below this one, default 0.5. */
  upThreshold?: number | undefined;
  downThreshold?: number | undefined;
  /** Time between two steps up, default 5 s, and before a step down, default 3 min (cost mode: 10 s). */
  upCooldown?: Duration | undefined;
  downCooldown?: Duration | undefined;
  /** The most workers that one decision starts, default all, and ends, default a quarter of `max`. */
  stepUp?: number | undefined;
  stepDown?: number | undefined;
  /** Cost mode: a batch starts when this many tasks wait, default 100, or one has waited this long, default 10 min. */
  batch?: number | undefined;
  maxAge?: Duration | undefined;
}

export const POLICY_OPTIONS = [
  ...["mode", "min", "max", "concurrency", "targetWait", "tasksPerWorker", "upThreshold", "downThreshold"],
  ...["upCooldown", "downCooldown", "stepUp", "stepDown", "batch", "maxAge"],
] as const;

export const MOST_WORKERS = 10_000;

export function parsePoolPolicy(options: PoolPolicyOptions): PoolPolicy {
  const mode = options.mode ?? "latency";
  if (mode !== "latency" && mode !== "cost")
    throw invalid(`mode must be "latency" or "cost"; got ${show(mode)}.`);
  const isCost = mode === "cost";
  const max = checkNumber(options.max ?? 10, "max", 1, MOST_WORKERS);
  const min = checkNumber(options.min ?? 0, "min", 0, MOST_WORKERS);
  if (min > max) throw invalid(`min must not be above max; got min ${min} and max ${max}.`);
  const { tasksPerWorker, targetWait } = options;
  if (tasksPerWorker !== undefined && targetWait !== undefined)
    throw invalid(`Give targetWait or tasksPerWorker, not both: each of them decides the size.`);
  if (tasksPerWorker !== undefined && isCost)
    throw invalid(
      `tasksPerWorker is for mode "latency"; in mode "cost", batch and maxAge start the workers.`,
    );
  const upThreshold = checkShare(options.upThreshold ?? 0.85, "upThreshold");
  const downThreshold = checkShare(options.downThreshold ?? Math.min(0.5, upThreshold), "downThreshold");
  if (downThreshold > upThreshold) {
    throw invalid(
      `downThreshold must not be above upThreshold, or the pool would grow and shrink at the same load; ` +
        `got ${downThreshold} and ${upThreshold}.`,
    );
  }
  return {
    ...{ mode, min, max, upThreshold, downThreshold },
    concurrency: checkNumber(options.concurrency ?? 1, "concurrency", 1, 10_000),
    targetWait: parseDuration(targetWait ?? (isCost ? "5m" : "5s"), "targetWait", 1),
    tasksPerWorker:
      tasksPerWorker === undefined ? null : checkNumber(tasksPerWorker, "tasksPerWorker", 1, 1_000_000),
    upCooldown: parseDuration(options.upCooldown ?? "5s", "upCooldown"),
    downCooldown: parseDuration(options.downCooldown ?? (isCost ? "10s" : "3m"), "downCooldown"),
    stepUp: checkNumber(options.stepUp ?? MOST_WORKERS, "stepUp", 1, MOST_WORKERS),
    stepDown: checkNumber(options.stepDown ?? Math.ceil(max / 4), "stepDown", 1, MOST_WORKERS),
    batch: checkNumber(options.batch ?? 100, "batch", 1, 1_000_000_000),
    maxAge: parseDuration(options.maxAge ?? "10m", "maxAge"),
  };
}

function checkShare(value: unknown, what: string): number {
  if (typeof value === "number" && value > 0 && value <= 1) return value;
  throw invalid(`${what} must be a number above 0, and at most 1; got ${show(value)}.`);
}
