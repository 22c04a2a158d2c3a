import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decide, type Observed, type PoolPolicy } from "../../src/pools/decide.ts";
import { waitQuantile } from "../../src/core/queue/queueing.ts";
import { IDLE, POLICY } from "./kit.ts";

function live(count: number, busy = 0): Observed["workers"] {
  return { live: count, starting: 0, busy };
}

function sizeOf(observed: Partial<Observed>, policy: Partial<PoolPolicy> = {}): number {
  return decide({ ...IDLE, ...observed }, { ...POLICY, ...policy }).size;
}

describe("latency mode", () => {
  test("a pool without work has its least size", () => {
    expect(sizeOf({})).toBe(0);
    expect(sizeOf({}, { min: 2 })).toBe(2);
    expect(sizeOf({ workers: live(5) })).toBe(0);
  });

  test("a steady stream gets the fewest workers whose waits stay below the target", () => {
    const size = sizeOf({ arrivalRate: 10, serviceTime: 500 });
    expect(size).toBeGreaterThan(5);
    expect(waitQuantile(5, 500, size, 0.95)).toBeLessThanOrEqual(1_000);
  });

  test("workers that execute several tasks at a time are needed less often", () => {
    const stream = { arrivalRate: 20, serviceTime: 500 };
    const single = sizeOf(stream);
    expect(sizeOf(stream, { concurrency: 4 })).toBe(Math.ceil(single / 4));
  });

  test("a backlog gets enough workers to start within the target", () => {
    expect(sizeOf({ serviceTime: 200, depth: 40 })).toBe(8);
  });

  test("the first task starts a worker although its duration is not known", () => {
    expect(sizeOf({ depth: 500 })).toBe(1);
  });

  test("while durations are unknown, waiting tasks add one worker at a time", () => {
    const late = { depth: 500, oldestAge: 2_000, running: 3, workers: live(3, 3) };
    expect(sizeOf(late)).toBe(4);
    expect(sizeOf({ ...late, workers: { live: 3, starting: 1, busy: 3 } })).toBe(4);
  });

  test("idle workers next to waiting tasks mean that more would not help", () => {
    const heldBack = { serviceTime: 200, depth: 40, workers: live(3) };
    expect(sizeOf(heldBack)).toBe(3);
    expect(sizeOf({ ...heldBack, running: 3, workers: live(3, 3) })).toBe(8);
  });

  test("a pause ends the workers, except those that execute a task", () => {
    const paused = { arrivalRate: 10, serviceTime: 500, depth: 10, blockedFor: Number.POSITIVE_INFINITY };
    expect(sizeOf({ ...paused, running: 2, workers: live(6, 2) })).toBe(2);
  });

  test("a block that ends within the cooldown ends no worker", () => {
    const limited = { arrivalRate: 10, serviceTime: 500, blockedFor: 900, workers: live(7, 0) };
    expect(sizeOf(limited, { downCooldown: 1_000 })).toBe(7);
  });

  test("the concurrency of the queue bounds the pool", () => {
    expect(sizeOf({ serviceTime: 1_000, depth: 100, concurrencyLimit: 6 })).toBe(6);
    expect(sizeOf({ serviceTime: 1_000, depth: 100, concurrencyLimit: 6 }, { concurrency: 4 })).toBe(2);
  });

  test("tasks per worker replace the target wait", () => {
    const policy = { tasksPerWorker: 10 };
    expect(sizeOf({ depth: 41 }, policy)).toBe(5);
    expect(sizeOf({ depth: 30, running: 11, workers: live(5, 5) }, policy)).toBe(5);
    expect(sizeOf({ depth: 0, workers: live(5) }, policy)).toBe(0);
  });

  test("steps limit each change", () => {
    const burst = { serviceTime: 1_000, depth: 12, running: 2, workers: live(2, 2) };
    expect(sizeOf(burst, { stepUp: 3 })).toBe(5);
    expect(sizeOf({ workers: live(9) }, { stepDown: 2 })).toBe(7);
  });

  test("cooldowns delay each change, except the first worker", () => {
    const burst = { serviceTime: 1_000, depth: 12, sinceUp: 4_000 };
    const busy = { ...burst, running: 2, workers: live(2, 2) };
    expect(sizeOf(busy, { upCooldown: 5_000 })).toBe(2);
    expect(sizeOf({ ...busy, sinceUp: 5_000 }, { upCooldown: 5_000 })).toBe(12);
    expect(sizeOf(burst, { upCooldown: 5_000 })).toBe(12);
    expect(sizeOf({ sinceUp: 4_000, workers: live(3) }, { downCooldown: 5_000 })).toBe(3);
    expect(sizeOf({ sinceUp: 9_000, sinceDown: 4_000, workers: live(3) }, { downCooldown: 5_000 })).toBe(3);
    expect(sizeOf({ sinceUp: 9_000, sinceDown: 5_000, workers: live(3) }, { downCooldown: 5_000 })).toBe(0);
  });

  test("the pool does not shrink below what was needed a moment ago", () => {
    expect(sizeOf({ recentNeed: 4, workers: live(9) })).toBe(4);
    expect(sizeOf({ recentNeed: 4, workers: live(2) })).toBe(2);
  });

  test("a pool outside its bounds returns to them at once", () => {
    const recent = { sinceUp: 0, sinceDown: 0 };
    const slow = { upCooldown: 60_000, downCooldown: 60_000 };
    expect(sizeOf({ ...recent, workers: live(1) }, { ...slow, min: 4 })).toBe(4);
    expect(sizeOf({ ...recent, workers: live(30) }, { ...slow, max: 6, min: 6 })).toBe(6);
  });
});

describe("cost mode", () => {
  const policy: Partial<PoolPolicy> = { mode: "cost", batch: 50, maxAge: 60_000, targetWait: 10_000 };

  test("work accumulates until a batch is full", () => {
    expect(sizeOf({ serviceTime: 1_000, depth: 49, oldestAge: 10_000 }, policy)).toBe(0);
    expect(sizeOf({ serviceTime: 1_000, depth: 50, oldestAge: 10_000 }, policy)).toBe(5);
  });

  test("a batch starts at the oldest age allowed", () => {
    expect(sizeOf({ serviceTime: 1_000, depth: 3, oldestAge: 59_999 }, policy)).toBe(0);
    expect(sizeOf({ serviceTime: 1_000, depth: 3, oldestAge: 60_000 }, policy)).toBe(1);
  });

  test("a batch starts when the queue's window opens, and none while it is closed", () => {
    const waiting = { serviceTime: 1_000, depth: 3, oldestAge: 5_000 };
    expect(sizeOf({ ...waiting, windowOpen: true }, policy)).toBe(1);
    expect(sizeOf({ ...waiting, oldestAge: 90_000, windowOpen: false, blockedFor: 3_600_000 }, policy)).toBe(
      0,
    );
  });

  test("workers of a batch stay while there is work for them, and end afterwards", () => {
    const under = { serviceTime: 1_000, depth: 20, oldestAge: 1_000, running: 5, workers: live(5, 5) };
    expect(sizeOf(under, policy)).toBe(5);
    expect(sizeOf({ ...under, depth: 0, oldestAge: null, running: 2, workers: live(5, 2) }, policy)).toBe(2);
    expect(sizeOf({ ...under, depth: 0, oldestAge: null, running: 0, workers: live(5) }, policy)).toBe(0);
  });
});

test("reasons tell the whole way to the size", () => {
  const { size, reasons } = decide(
    {
      ...IDLE,
      arrivalRate: 12,
      serviceTime: 250,
      depth: 40,
      running: 2,
      workers: live(2, 2),
      sinceUp: 60_000,
    },
    { ...POLICY, max: 8, stepUp: 4 },
  );
  expect(size).toBe(6);
  expect(reasons).toEqual([
    "12 tasks/s arrive and each takes 250 ms: 3 are being executed on average.",
    "4 workers let 95 % of the tasks start within 1 s, busy at most 85 % of the time.",
    "40 tasks wait: 10 workers start all of them within 1 s.",
    "The pool may have at most 8 workers.",
    "One step changes it by at most that, on the way to 8.",
    "Grows from 2 to 6.",
  ]);
});

const policies = fc
  .record({
    mode: fc.constantFrom("latency", "cost"),
    min: fc.nat(10),
    span: fc.nat(60),
    concurrency: fc.integer({ min: 1, max: 8 }),
    targetWait: fc.integer({ min: 1, max: 600_000 }),
    tasksPerWorker: fc.option(fc.integer({ min: 1, max: 100 })),
    upThreshold: fc.double({ min: 0.6, max: 1, noNaN: true }),
    downThreshold: fc.double({ min: 0.1, max: 0.6, noNaN: true }),
    upCooldown: fc.nat(60_000),
    downCooldown: fc.nat(300_000),
    stepUp: fc.integer({ min: 1, max: 60 }),
    stepDown: fc.integer({ min: 1, max: 60 }),
    batch: fc.integer({ min: 1, max: 1_000 }),
    maxAge: fc.nat(3_600_000),
  })
  .map(({ span, ...rest }): PoolPolicy => ({ ...rest, max: Math.max(1, rest.min + span) }));

const observations: fc.Arbitrary<Observed> = fc
  .record({
    arrivalRate: fc.double({ min: 0, max: 500, noNaN: true }),
    serviceTime: fc.option(fc.double({ min: 0, max: 600_000, noNaN: true })),
    depth: fc.nat(100_000),
    running: fc.nat(200),
    oldestAge: fc.nat(10_000_000),
    live: fc.nat(80),
    starting: fc.nat(10),
    busy: fc.nat(80),
    sinceUp: fc.option(fc.nat(600_000)),
    sinceDown: fc.option(fc.nat(600_000)),
    recentNeed: fc.nat(80),
    windowOpen: fc.option(fc.boolean()),
    blockedFor: fc.oneof(fc.constant(0), fc.constant(Number.POSITIVE_INFINITY), fc.nat(600_000)),
    concurrencyLimit: fc.option(fc.integer({ min: 1, max: 300 })),
  })
  .map(({ live: count, starting, busy, oldestAge, ...rest }) => ({
    ...rest,
    oldestAge: rest.depth === 0 ? null : oldestAge,
    workers: { live: count, starting, busy: Math.min(busy, count) },
  }));

describe("for every observation and policy", () => {
  test("the size is a whole number within the bounds, with reasons", () => {
    fc.assert(
      fc.property(observations, policies, (observed, policy) => {
        const { size, reasons } = decide(observed, policy);
        expect(Number.isInteger(size)).toBe(true);
        expect(size).toBeLessThanOrEqual(
          Math.max(policy.max, observed.workers.live + observed.workers.starting),
        );
        expect(reasons.length).toBeGreaterThan(0);
        expect(reasons.join(" ")).not.toMatch(/NaN|undefined|null/);
      }),
    );
  });

  test("with room to change, the size is within min and max", () => {
    fc.assert(
      fc.property(observations, policies, (observed, policy) => {
        const free = { ...policy, upCooldown: 0, downCooldown: 0, stepUp: 1_000, stepDown: 1_000 };
        const { size } = decide(observed, free);
        expect(size).toBeGreaterThanOrEqual(policy.min);
        expect(size).toBeLessThanOrEqual(policy.max);
      }),
    );
  });

  test("a busy worker is not ended, unless the pool is above its maximum", () => {
    fc.assert(
      fc.property(observations, policies, (observed, policy) => {
        const { size } = decide(observed, policy);
        expect(size).toBeGreaterThanOrEqual(Math.min(observed.workers.busy, policy.max));
      }),
    );
  });

  test("more load never makes the pool smaller", () => {
    const more = fc.record({
      arrivals: fc.double({ min: 0, max: 100, noNaN: true }),
      depth: fc.nat(10_000),
      age: fc.nat(1e6),
    });
    fc.assert(
      fc.property(observations, policies, more, (observed, policy, { arrivals, depth, age }) => {
        const loaded = {
          ...observed,
          arrivalRate: observed.arrivalRate + arrivals,
          depth: observed.depth + depth,
          oldestAge: observed.depth + depth === 0 ? null : (observed.oldestAge ?? 0) + age,
        };
        expect(decide(loaded, policy).size).toBeGreaterThanOrEqual(decide(observed, policy).size);
      }),
    );
  });

  test("under constant figures the pool settles, and never changes direction", () => {
    fc.assert(
      fc.property(observations, policies, (observed, policy) => {
        const sizes = follow(observed, policy, 200);
        const changes = sizes
          .slice(1)
          .map((size, i) => Math.sign(size - sizes[i]!))
          .filter((sign) => sign !== 0);
        expect(new Set(changes).size).toBeLessThanOrEqual(1);
        expect(sizes.at(-1)).toBe(sizes.at(-2));
      }),
    );
  });
});

/** What the pool does if its load stays the same and its workers appear at once. */
function follow(observed: Observed, policy: PoolPolicy, rounds: number): number[] {
  const every = Math.max(policy.upCooldown, policy.downCooldown, 1);
  let size = observed.workers.live + observed.workers.starting;
  let { sinceUp, sinceDown } = observed;
  const sizes = [size];
  for (let round = 0; round < rounds; round++) {
    const busy = Math.min(observed.running, size);
    const seen = { ...observed, workers: { live: size, starting: 0, busy }, sinceUp, sinceDown };
    const next = decide(seen, policy).size;
    sinceUp = next > size ? 0 : sinceUp === null ? null : sinceUp + every;
    sinceDown = next < size ? 0 : sinceDown === null ? null : sinceDown + every;
    size = next;
    sizes.push(size);
  }
  return sizes;
}
