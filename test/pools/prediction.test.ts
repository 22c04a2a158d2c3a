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
  const startUps = joined.map((at, i) => at - starts[i]!);
  // Those that started under load, if any was needed.
  const startUp = mean(startUps.length > POLICY.min ? startUps.slice(POLICY.min) : startUps);
  await pool.stop();
  const { tasks: done } = await queue.tasks({ state: "done", limit: 1_000 });
  const tasks = done.toSorted((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
  const began = tasks[0]!.createdAt.getTime();
  const waits = tasks.map(({ startedAt, createdAt }) => startedAt!.getTime() - createdAt.getTime());
  const wait = mean(waits);
  // Little's law: waiting time per time is the mean depth.
  const depth = (wait * waits.length) / DURATION;

  const scenario = {
    ...{
      load: LOAD,
      // As they really were: on a busy machine timers are late, and a task takes longer than it asks for.
      tasks: tasks.map(({ createdAt, startedAt, endedAt }) => ({
        at: createdAt.getTime() - began + BEFORE,
        service: endedAt!.getTime() - startedAt!.getTime(),
      })),
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
  expect(summary.added).toBe(times.length);
  const ratios = [wait / predicted.wait, depth / predicted.depth];
  const areClose = ratios.every((ratio) => ratio < 1.3 && ratio > 1 / 1.3);
  expect({ ...facts, areClose }).toEqual({ ...facts, areClose: true });
});

function mean(values: number[]): number {
  return values.reduce((sum, each) => sum + each, 0) / values.length;
}
