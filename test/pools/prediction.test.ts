// A real pool and its simulation get the same load.

import { expect, test } from "vitest";
import { arrivals, type Load, serviceTime } from "../../src/pools/load.ts";
import { parsePoolPolicy } from "../../src/pools/policy.ts";
import { seededRandom } from "../../src/pools/random.ts";
import { simulate } from "../../src/pools/simulate.ts";
import { isLong } from "../run/long.ts";
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
  const nominal = [...arrivals(LOAD, DURATION, seededRandom(SEED))].map((at) => ({
    at,
    service: serviceTime(SERVICE, services),
  }));
  await Promise.all(
    nominal.map(async ({ at, service }) => {
      await new Promise((resolve) => setTimeout(resolve, at));
      await queue.add({ ms: service });
    }),
  );
  await expect.poll(async () => (await queue.stats()).depth.done).toBe(nominal.length);
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

  const actual = tasks.map(({ createdAt, startedAt, endedAt }) => ({
    at: createdAt.getTime() - began,
    service: endedAt!.getTime() - startedAt!.getTime(),
  }));
  // As they really were: on a busy machine timers are late, and a task takes longer than it asks for.
  expect(compare({ wait, depth }, actual, startUp)).toMatchObject({ areClose: true });
  // As they were asked for, which a machine without other work keeps to.
  if (isLong) expect(compare({ wait, depth }, nominal, startUp)).toMatchObject({ areClose: true });
});

function compare(
  real: { wait: number; depth: number },
  tasks: readonly { at: number; service: number }[],
  startUp: number,
) {
  const scenario = {
    ...{ load: LOAD, service: SERVICE, seed: SEED, startUp, duration: DURATION * 3 },
    ...{ failureRate: 0, retryDelay: 0, maxAttempts: 1, interval: INTERVAL, drones: false, window: null },
    tasks: tasks.map(({ at, service }) => ({ at: at + BEFORE, service })),
  };
  const { summary } = simulate(scenario, parsePoolPolicy(POLICY));
  expect(summary.added).toBe(tasks.length);
  const predicted = { wait: summary.wait.mean, depth: summary.meanDepth * 3 };
  const ratios = [real.wait / predicted.wait, real.depth / predicted.depth];
  const areClose = ratios.every((ratio) => ratio < 1.3 && ratio > 1 / 1.3);
  return { startUp, real, predicted, ratios, areClose };
}

function mean(values: number[]): number {
  return values.reduce((sum, each) => sum + each, 0) / values.length;
}
