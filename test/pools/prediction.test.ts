// A real pool and its simulation get the same arrivals and durations.

import { expect, test } from "vitest";
import { arrivals, type Load, serviceTime } from "../../src/pools/load.ts";
import { parsePoolPolicy } from "../../src/pools/policy.ts";
import { seededRandom } from "../../src/pools/random.ts";
import { simulate } from "../../src/pools/simulate.ts";
import { makeSite } from "./pool-kit.ts";

const SEED = 5;
const DURATION = 6_000;
const LOAD: Load = { kind: "square", low: 4, high: 30, period: 6_000 };
const SERVICE = { mean: 150, distribution: "exponential" } as const;
const POLICY = { min: 2, max: 4, targetWait: 600, upCooldown: 500, downCooldown: 60_000 } as const;
const INTERVAL = 100;
/** In the simulation the first workers start at time 0, and the load begins later. */
const BEFORE = 5_000;

test("the simulation predicts depth and wait of a real run within a factor of 1.3", async () => {
  const site = await makeSite();
  const queue = site.dibs.queue<{ ms: number }>("work", { lease: "10s" });
  /** When each worker was started. */
  const starts: number[] = [];
  const pool = site.dibs.pool({
    ...site.options("worker", {
      tasksPerWorker: undefined,
      stepDown: undefined,
      ...POLICY,
      interval: INTERVAL,
    }),
    onDecision: ({ from = 0, to = 0 }) => {
      for (let count = from; count < to; count++) starts.push(Date.now());
    },
  });
  // The first workers are there before the load begins.
  await expect.poll(() => pool.status().workers.live).toBe(POLICY.min);
  const services = seededRandom(SEED + 1);
  const times = [...arrivals(LOAD, DURATION, seededRandom(SEED))];
  await Promise.all(
    times.map(async (at) => {
      const ms = serviceTime(SERVICE, services);
      await new Promise((resolve) => setTimeout(resolve, at));
      await queue.add({ ms });
    }),
  );
  await expect.poll(async () => (await queue.stats()).depth.done).toBe(times.length);
  const joined = (await site.dibs.workers())
    .map(({ joinedAt }) => joinedAt.getTime())
    .toSorted((a, b) => a - b);
  const startUp = mean(joined.slice(POLICY.min).map((at, i) => at - starts[POLICY.min + i]!));
  await pool.stop();
  const { tasks } = await queue.tasks({ state: "done", limit: 1_000 });
  const waits = tasks.map(({ startedAt, createdAt }) => startedAt!.getTime() - createdAt.getTime());
  const wait = mean(waits);
  // Little's law: waiting time per time is the mean depth.
  const depth = (wait * waits.length) / DURATION;

  const scenario = {
    ...{
      load: LOAD,
      arrivals: times.map((at) => at + BEFORE),
      duration: DURATION * 3,
      service: SERVICE,
      seed: SEED,
      startUp,
    },
    ...{ failureRate: 0, retryDelay: 0, maxAttempts: 1, interval: INTERVAL, drones: false, window: null },
  };
  const { summary } = simulate(scenario, parsePoolPolicy(POLICY));
  const predicted = { wait: summary.wait.mean, depth: summary.meanDepth * 3 };
  const facts = { startUp, wait, depth, predicted };
  expect(times.length).toBe(summary.added);
  const ratios = [wait / predicted.wait, depth / predicted.depth];
  const areClose = ratios.every((ratio) => ratio < 1.3 && ratio > 1 / 1.3);
  expect({ ...facts, areClose }).toEqual({ ...facts, areClose: true });
});

function mean(values: number[]): number {
  return values.reduce((sum, each) => sum + each, 0) / values.length;
}
