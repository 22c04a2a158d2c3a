import type { Observed, PoolPolicy } from "../../src/pools/decide.ts";

/** A policy without cooldowns and steps: tests add what they are about. */
export const POLICY: PoolPolicy = {
  mode: "latency",
  min: 0,
  max: 20,
  concurrency: 1,
  targetWait: 1_000,
  tasksPerWorker: null,
  upThreshold: 0.85,
  downThreshold: 0.6,
  upCooldown: 0,
  downCooldown: 0,
  stepUp: 1_000,
  stepDown: 1_000,
  batch: 100,
  maxAge: 600_000,
};

export const IDLE: Observed = {
  arrivalRate: 0,
  serviceTime: null,
  depth: 0,
  running: 0,
  oldestAge: null,
  workers: { live: 0, starting: 0, busy: 0 },
  sinceUp: null,
  sinceDown: null,
  recentNeed: 0,
  windowOpen: null,
  blockedFor: 0,
  concurrencyLimit: null,
};
