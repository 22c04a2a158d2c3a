import { expect, test } from "vitest";
import { meanWait } from "../../src/core/queue/queueing.ts";
import { NO_DEPTH, type QueueStats } from "../../src/core/task/task.ts";
import { advise } from "../../src/pools/advise.ts";

const QUIET: QueueStats = {
  queue: "emails",
  exists: true,
  paused: false,
  depth: { ...NO_DEPTH },
  oldestAge: null,
  rates: { windowMs: 60_000, addedPerSecond: 0, donePerSecond: 0, failedPerSecond: 0 },
  failureRate: null,
  serviceTime: null,
  waitTime: null,
  serviceTimes: null,
  workers: 0,
  heldBack: null,
};

function workers(count: number, { concurrency = 1, busy = 0 } = {}) {
  return Array.from({ length: count }, (_, i) => ({
    name: `worker-${i + 1}`,
    concurrency,
    claims: i < busy ? concurrency : 0,
  }));
}

function flowing(
  perSecond: number,
  serviceTime: number,
  depth: Partial<QueueStats["depth"]> = {},
): QueueStats {
  return {
    ...QUIET,
    depth: { ...NO_DEPTH, ...depth },
    oldestAge: depth.ready ? 2_000 : null,
    rates: { ...QUIET.rates, addedPerSecond: perSecond, donePerSecond: perSecond },
    serviceTime,
  };
}

test("a queue without tasks is idle", () => {
  expect(advise(QUIET, workers(2))).toMatchObject({
    verdict: "idle",
    drainedIn: 0,
    workers: { now: 2, needed: null },
    idle: ["worker-1", "worker-2"],
  });
});

test("a backlog behind busy workers is worker-bound, with the workers that would keep up", () => {
  const advice = advise(flowing(10, 1_000, { ready: 100, claimed: 4 }), workers(4, { busy: 4 }));
  expect(advice).toMatchObject({ verdict: "worker-bound", drainedIn: null, idle: [] });
  expect(advice.workers.needed).toBeGreaterThan(10);
  expect(advice.workers.wait).toBeNull();
  expect(advice.summary.join(" ")).toContain("would keep up with 10 tasks/s");
});

test("a backlog that shrinks says when it is gone", () => {
  const { drainedIn } = advise(flowing(2, 1_000, { ready: 100, claimed: 4 }), workers(4, { busy: 4 }));
  expect(drainedIn).toBe(50_000);
});

test("workers that wait for tasks are producer-bound", () => {
  const advice = advise(flowing(1, 100), workers(20));
  expect(advice).toMatchObject({ verdict: "producer-bound", workers: { needed: 1, now: 20 } });
  expect(advice.summary).toEqual(["Nothing waits: the workers keep up. 1 worker would be enough."]);
});

test("tasks that wait next to idle workers are contended, with the cause", () => {
  const limited = { ...flowing(10, 100, { ready: 50 }), heldBack: { by: "rate", until: null } as const };
  const advice = advise(limited, workers(4, { busy: 1 }));
  expect(advice.verdict).toBe("contended");
  expect(advice.summary[0]).toContain("the queue's rate keeps them back");
});

test("a backlog without workers is worker-bound", () => {
  const advice = advise({ ...QUIET, depth: { ...NO_DEPTH, ready: 3 } }, []);
  expect(advice).toMatchObject({ verdict: "worker-bound", workers: { needed: null } });
  expect(advice.summary[0]).toContain("there is no worker. Start one.");
});

test("the knee is where the workers' rate meets the arrivals", () => {
  expect(advise(flowing(30, 500), workers(3, { concurrency: 2 })).knee).toEqual({
    workers: 7.5,
    ratePerWorker: 4,
    arrivals: 30,
    capacity: 12,
  });
});

test("failed attempts count as arrivals, because their tasks return", () => {
  const failing = flowing(10, 100);
  failing.rates.failedPerSecond = 5;
  expect(advise(failing, workers(2)).knee.arrivals).toBe(15);
});

test("the lease covers the service times of nearly all tasks", () => {
  const serviceTimes = { count: 500, mean: 1_200, p50: 800, p90: 4_000, p99: 6_500, max: 9_000 };
  expect(advise({ ...QUIET, serviceTimes }, []).lease).toMatchObject({ recommended: 15_000 });
  const quick = { ...serviceTimes, p99: 10 };
  expect(advise({ ...QUIET, serviceTimes: quick }, []).lease).toMatchObject({ recommended: 5_000 });
});

test("the predicted wait is that of M/M/c", () => {
  const { wait, utilisation } = advise(flowing(9, 1_000), workers(12)).workers;
  expect(utilisation).toBeCloseTo(0.75, 9);
  expect(wait).toBeCloseTo(meanWait(9, 1_000, 12), 9);
});
