import { describe, expect, test } from "vitest";
import { meanWait } from "../../src/core/queue/queueing.ts";
import { advise } from "../../src/pools/advise.ts";
import { NO_DEPTH } from "../../src/core/task/task.ts";
import { arrivals, DAY_MS, type Load, rateAt } from "../../src/pools/load.ts";
import { parsePoolPolicy, type PoolPolicyOptions } from "../../src/pools/policy.ts";
import { seededRandom } from "../../src/pools/random.ts";
import { type Scenario, simulate } from "../../src/pools/simulate.ts";

const HOUR = 3_600_000;

/** With four seeds, enough that the mean wait is within 5 % of its expectation. */
const TASKS = 100_000;

const SCENARIO: Scenario = {
  load: { kind: "constant", rate: 10 },
  duration: HOUR,
  service: { mean: 500, distribution: "exponential" },
  failureRate: 0,
  retryDelay: 1_000,
  maxAttempts: 5,
  startUp: 1_000,
  interval: 1_000,
  drones: false,
  window: null,
  seed: 7,
};

function run(scenario: Partial<Scenario>, policy: PoolPolicyOptions) {
  return simulate({ ...SCENARIO, ...scenario }, parsePoolPolicy(policy));
}

function mean(values: number[]): number {
  return values.reduce((sum, each) => sum + each, 0) / values.length;
}

function expectWithin5Percent(value: number, expected: number): void {
  expect(value / expected).toBeGreaterThan(0.95);
  expect(value / expected).toBeLessThan(1.05);
}

describe("a pool of a fixed size is M/M/c", () => {
  test.each([
    [1, 0.5],
    [5, 3],
    [12, 9],
  ])("%d workers with a load of %d wait as Erlang C says, and as the advice says", (workers, load) => {
    const stream = { kind: "constant", rate: load * 2 } as const;
    const duration = (TASKS / stream.rate) * 1_000;
    const runs = [1, 2, 3, 4].map((seed) =>
      run({ load: stream, duration, startUp: 0, seed }, { min: workers, max: workers }),
    );
    const wait = mean(runs.map(({ summary }) => summary.wait.mean));
    expectWithin5Percent(wait, meanWait(load, 500, workers));
    expect(mean(runs.map(({ summary }) => summary.utilisation))).toBeCloseTo(load / workers, 1);
    const advice = advise(
      {
        ...{
          queue: "q",
          exists: true,
          paused: false,
          depth: NO_DEPTH,
          oldestAge: null,
          failureRate: 0,
          heldBack: null,
        },
        rates: { windowMs: 60_000, addedPerSecond: load * 2, donePerSecond: load * 2, failedPerSecond: 0 },
        ...{ serviceTime: 500, waitTime: null, serviceTimes: null, workers },
      },
      Array.from({ length: workers }, () => ({ name: "w", concurrency: 1, claims: 1 })),
    );
    expectWithin5Percent(wait, advice.workers.wait!);
  });
});

describe("latency mode", () => {
  test("a constant load is served within the target, and the pool hardly changes", () => {
    const { summary } = run({ duration: 5 * HOUR }, { max: 40, targetWait: "2s" });
    expect(summary.withinTarget).toBeGreaterThan(0.95);
    // In five hours: a minute with many arrivals may need one more worker for a while.
    expect(summary.turns).toBeLessThanOrEqual(4);
    expect(summary.left).toBeLessThan(30);
  });

  test("a square wave is followed up and down, without oscillation", () => {
    const load: Load = { kind: "square", low: 1, high: 20, period: HOUR };
    const { summary, points } = run({ load, duration: 4 * HOUR }, { max: 40, targetWait: "5s" });
    expect(summary.withinTarget).toBeGreaterThan(0.9);
    // Seven changes of the load. Between them, a minute with many arrivals may need one more worker for a while.
    expect(summary.turns).toBeLessThanOrEqual(7 + 8);
    const highs = points.filter(({ at }) => at % HOUR > HOUR * 0.2 && at % HOUR < HOUR * 0.5);
    const lows = points.filter(({ at }) => at % HOUR > HOUR * 0.7);
    expect(Math.min(...highs.map(({ workers }) => workers))).toBeGreaterThanOrEqual(10);
    expect(Math.max(...lows.map(({ workers }) => workers))).toBeLessThanOrEqual(3);
  });

  test("a burst is worked off, and the pool returns to zero", () => {
    const load: Load = { kind: "burst", rate: 0, size: 500, at: 60_000 };
    const { summary, points } = run({ load, duration: HOUR }, { max: 50, targetWait: "10s" });
    expect(summary).toMatchObject({ added: 500, done: 500, left: 0, turns: 1 });
    expect(summary.peakWorkers).toBeGreaterThan(10);
    expect(points.at(-1)!.workers).toBe(0);
  });

  test("failed attempts are tried again, and their tasks are dead in the end", () => {
    const { summary } = run({ failureRate: 0.5, maxAttempts: 2, duration: HOUR }, { max: 40 });
    expect(summary.dead / summary.added).toBeCloseTo(0.25, 1);
    expect(summary.done + summary.dead + summary.left).toBeGreaterThanOrEqual(summary.added - 60);
  });

  test("drones need more processes than workers that stay", () => {
    const policy = { max: 60, targetWait: "2s" } as const;
    const stay = run({}, policy).summary;
    const drones = run({ drones: true }, policy).summary;
    expect(drones.workerHours).toBeGreaterThan(stay.workerHours);
    expect(drones.utilisation).toBeLessThan(stay.utilisation);
  });
});

describe("cost mode", () => {
  test("a day in cost mode takes fewer worker-hours than in latency mode, at longer waits", () => {
    const load: Load = { kind: "daily", low: 0.02, high: 0.6 };
    const scenario = { load, duration: DAY_MS, service: { mean: 8_000, distribution: "lognormal" } as const };
    const latency = run(scenario, { max: 20, targetWait: "10s" }).summary;
    const cost = run(scenario, { max: 20, mode: "cost", batch: 100, maxAge: "15m" }).summary;
    expect(cost.workerHours).toBeLessThan(latency.workerHours * 0.8);
    expect(cost.wait.max).toBeLessThan(HOUR);
    expect(cost.wait.mean).toBeGreaterThan(latency.wait.mean);
    expect(latency.withinTarget).toBeGreaterThan(0.9);
  });

  test("work waits for the queue's window", () => {
    const load: Load = { kind: "constant", rate: 0.05 };
    const { points } = run(
      { load, duration: DAY_MS, window: { hours: "22:00-23:00", tz: "UTC" } },
      { max: 20, mode: "cost", batch: 1_000_000, maxAge: "10d" },
    );
    const before = points.filter(({ at }) => at < 22 * HOUR);
    expect(before.every(({ workers }) => workers === 0)).toBe(true);
    expect(points.some(({ workers }) => workers > 0)).toBe(true);
    expect(points.at(-1)!.depth).toBeLessThan(400);
  });
});

test("the same seed gives the same result, another seed another one", () => {
  const policy = { max: 20 };
  expect(run({}, policy)).toEqual(run({}, policy));
  expect(run({}, policy).summary.added).not.toBe(run({ seed: 8 }, policy).summary.added);
});

test("two simulated policies get the same tasks", () => {
  expect(run({}, { max: 20 }).summary.added).toBe(run({}, { max: 2 }).summary.added);
});

describe("loads", () => {
  test("arrivals follow the rate of each moment", () => {
    const load: Load = { kind: "daily", low: 1, high: 5 };
    const times = [...arrivals(load, DAY_MS, seededRandom(1))];
    const inHour = (hour: number) => times.filter((at) => Math.floor(at / HOUR) === hour).length / 3_600;
    expect(inHour(2)).toBeCloseTo(rateAt(load, 2.5 * HOUR), 0);
    expect(inHour(14)).toBeCloseTo(rateAt(load, 14.5 * HOUR), 0);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
  });

  test("recorded rates are valid until the next", () => {
    const load: Load = {
      kind: "recorded",
      rates: [
        { at: 0, rate: 1 },
        { at: 1_000, rate: 4 },
      ],
    };
    expect([0, 999, 1_000, 9_000].map((at) => rateAt(load, at))).toEqual([1, 1, 4, 4]);
  });
});
