import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DibsError } from "../../src/core/errors/errors.ts";
import type { ClaimNotice } from "../../src/core/task/claim-call.ts";
import type { Port } from "../../src/core/port.ts";
import { DEFAULT_POLICY, type QueuePolicy } from "../../src/core/queue/policy.ts";
import { open } from "../../src/index.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { openTestStore } from "../../src/testing/test-store.ts";
import { LONGEST_MS, PLANNED_MS, Prefetch } from "../../src/worker/prefetch.ts";

/** `prefetch: "auto"`, by its rules (prefetch.ts) and as other workers see it. */

interface Job {
  ms: number;
}

const times = (count: number, call: () => void): void => {
  for (let i = 0; i < count; i++) call();
};

function wait(clock: ManualClock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.after(ms, resolve));
}

/** Records what workers do at the port, with the times of the clock. */
function watch(port: Port, clock: ManualClock) {
  const now = (): number => clock.read().awake;
  const claim = port.claim.bind(port);
  const settle = port.settle.bind(port);
  /** Claimed and not started. */
  const waiting = new Map<string, number>();
  const seen = { longestWait: 0, givenBack: 0, most: 0, starts: [] as { id: string; at: number }[] };
  const stopsWaiting = (id: string): void => {
    seen.longestWait = Math.max(seen.longestWait, now() - waiting.get(id)!);
    waiting.delete(id);
  };
  port.claim = async (call) => {
    const result = await claim(call);
    for (const { id } of result.tasks) waiting.set(id, now());
    seen.most = Math.max(seen.most, result.tasks.length);
    return result;
  };
  port.settle = (ref, call, within) => {
    if (call.kind === "release" && !call.started) {
      seen.givenBack++;
      stopsWaiting(ref.id);
    }
    return settle(ref, call, within);
  };
  const started = (id: string): void => {
    stopsWaiting(id);
    seen.starts.push({ id, at: now() });
  };
  return { seen, started };
}

describe("how much a worker prefetches", () => {
  it("an automatic prefetch begins after eight short tasks, and doubles with each round", () => {
    const prefetch = new Prefetch("auto", 1);
    expect(prefetch.allowance).toBe(0);
    times(7, () => prefetch.handled(0.01));
    expect(prefetch.allowance).toBe(0);
    prefetch.handled(0.01);
    expect(prefetch.allowance).toBe(8);
    times(8, () => prefetch.handled(0.01));
    expect(prefetch.allowance).toBe(16);
    times(2_000, () => prefetch.handled(0.01));
    expect(prefetch.allowance).toBe(900);
  });

  it("an automatic prefetch allows what the slots start within the planned time", () => {
    for (const [concurrency, ms, allowed] of [
      [1, 1, 10],
      [1, 4, 2],
      [10, 4, 25],
      [1, PLANNED_MS, 1],
      [100, PLANNED_MS + 0.1, 0],
      [100, 2_000, 0],
    ] as const) {
      const prefetch = new Prefetch("auto", concurrency);
      times(200, () => prefetch.handled(ms));
      expect([concurrency, ms, prefetch.allowance]).toEqual([concurrency, ms, allowed]);
    }
  });

  it("one slow task ends an automatic prefetch until many short ones have followed", () => {
    const prefetch = new Prefetch("auto", 1);
    times(1_000, () => prefetch.handled(0.1));
    prefetch.handled(1_000);
    expect(prefetch.allowance).toBe(0);
    times(60, () => prefetch.handled(0.1));
    expect(prefetch.allowance).toBe(0);
    times(100, () => prefetch.handled(0.1));
    expect(prefetch.allowance).toBeGreaterThan(50);
  });

  it("an automatic prefetch shrinks when tasks waited longer than planned", () => {
    const prefetch = new Prefetch("auto", 1);
    times(800, () => prefetch.handled(0.001));
    prefetch.waited(PLANNED_MS * 2);
    expect(prefetch.allowance).toBe(400);
  });

  it("queues whose limits count claims, and sticky groups, have nothing prefetched", () => {
    const limits: Partial<QueuePolicy>[] = [
      { maxConcurrency: 5 },
      { rateLimit: [{ max: 5, per: 1_000, unit: null, pace: false }] },
      { groups: { ...DEFAULT_POLICY.groups, sticky: true } },
    ];
    for (const limit of limits) {
      const prefetch = new Prefetch("auto", 1);
      times(50, () => prefetch.handled(0.1));
      prefetch.learn({ a: DEFAULT_POLICY, b: { ...DEFAULT_POLICY, ...limit } });
      expect(prefetch.allowance).toBe(0);
      prefetch.learn({ a: DEFAULT_POLICY });
      expect(prefetch.allowance).toBe(0);
      prefetch.learn({ b: DEFAULT_POLICY });
      expect(prefetch.allowance).toBe(50);
    }
  });
});

describe("a worker that prefetches by itself", () => {
  it("no task waits longer than the bound, none is lost, and urgent ones come first within it", async () => {
    // Sums of these are exact.
    const phase = fc.record({
      ms: fc.constantFrom(0.25, 2.5, 25, 250),
      count: fc.integer({ min: 5, max: 60 }),
    });
    const slots = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 2, maxLength: 3 });
    const urgentTimes = fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(phase, { minLength: 2, maxLength: 5 }),
        slots,
        urgentTimes,
        async (phases, concurrencies, urgent) => {
          await using store = await openTestStore();
          const { clock } = store;
          const { seen, started } = watch(store.dibs.port, clock);
          const queue = store.dibs.queue<Job>("jobs");
          const jobs = phases.flatMap(({ ms, count }) => Array.from({ length: count }, () => ({ ms })));
          await queue.addMany(jobs.map((data) => ({ data })));
          const handler = async ({ id, data }: { id: string; data: Job }): Promise<void> => {
            started(id);
            await wait(clock, data.ms);
          };
          for (const concurrency of concurrencies) queue.work(handler, { concurrency });
          const addedAt = new Map<string, number>();
          for (const at of urgent.toSorted((a, b) => a - b)) {
            await clock.advance(Math.max(0, at - Math.ceil(clock.read().awake)));
            const { id } = await queue.add({ ms: 1 }, { priority: 5 });
            addedAt.set(id, clock.read().awake);
          }
          const all = jobs.length + urgent.length;
          while (seen.starts.length < all) await clock.advance(50);
          await clock.advance(1_000);

          expect((await queue.stats()).depth).toMatchObject({ done: all, ready: 0, claimed: 0 });
          expect(new Set(seen.starts.map(({ id }) => id)).size).toBe(all);
          expect(seen.longestWait).toBeLessThanOrEqual(LONGEST_MS);
          // Each worker may hold it for the bound before it gives it back.
          const bound = LONGEST_MS * concurrencies.length;
          for (const [id, added] of addedAt) {
            const begun = seen.starts.find((start) => start.id === id)!.at;
            const before = seen.starts.filter(({ at }) => at > added + bound && at < begun);
            expect(before.filter((start) => !addedAt.has(start.id))).toEqual([]);
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  it("handlers that take longer than the bound share tasks by their speed, to the exact task", async () => {
    await using store = await openTestStore();
    const { clock } = store;
    const { seen, started } = watch(store.dibs.port, clock);
    const queue = store.dibs.queue("jobs");
    await queue.addMany(Array.from({ length: 110 }, () => ({ data: null })));
    const handled = { fast: 0, slow: 0 };
    const work = (name: keyof typeof handled, ms: number): unknown =>
      queue.work(async ({ id }) => {
        started(id);
        handled[name]++;
        await wait(clock, ms);
      });
    work("fast", 100);
    work("slow", 1_000);
    await clock.advance(9_950);
    expect(handled).toEqual({ fast: 100, slow: 10 });
    expect(seen).toMatchObject({ most: 1, givenBack: 0 });
    // Handlers that still run would keep the store from closing.
    await clock.advance(2_000);
  });

  it("the worker of a slow handler returns tasks that it has not started to their positions, without an attempt", async () => {
    await using store = await openTestStore();
    const { clock } = store;
    const { seen, started } = watch(store.dibs.port, clock);
    const queue = store.dibs.queue<number>("jobs");
    await queue.addMany(Array.from({ length: 60 }, (_, data) => ({ data })));
    const worker = queue.work(async ({ id, data }) => {
      started(id);
      await wait(clock, data < 30 ? 0.1 : 60_000);
    });
    await worker.ready;
    await clock.advance(20);
    expect((await queue.stats()).depth.claimed).toBeGreaterThan(1);
    await clock.advance(LONGEST_MS);
    expect((await queue.stats()).depth).toMatchObject({ claimed: 1, ready: 29, done: 30 });
    expect(seen.givenBack).toBeGreaterThan(0);
    const { tasks } = await queue.tasks({ state: "ready", limit: 100 });
    expect(tasks.map(({ data, attempt }) => [data, attempt])).toEqual(
      Array.from({ length: 29 }, (_, i) => [31 + i, 1]),
    );
    await clock.advance("1h");
  });

  it("a handler that computes for long gives the rest back when it returns", async () => {
    await using dibs = await open(":memory:");
    const queue = dibs.queue<number>("jobs");
    await queue.addMany(Array.from({ length: 200 }, (_, data) => ({ data })));
    const slow = Promise.withResolvers<void>();
    const settle = dibs.port.settle.bind(dibs.port);
    let givenBack = 0;
    dibs.port.settle = (ref, call, within) => {
      if (call.kind === "release") givenBack++;
      return settle(ref, call, within);
    };
    const worker = queue.work(async ({ data }) => {
      if (data !== 100) return;
      const end = performance.now() + 2 * LONGEST_MS;
      while (performance.now() < end);
      slow.resolve();
    });
    await slow.promise;
    while ((await queue.stats()).depth.done < 200) await new Promise((resolve) => setImmediate(resolve));
    await worker.stop();
    expect(givenBack).toBeGreaterThan(0);
  });

  it("the prefetched tasks of a worker with a limit count only when they start", async () => {
    await using store = await openTestStore();
    const { clock } = store;
    const { started } = watch(store.dibs.port, clock);
    const queue = store.dibs.queue<Job>("jobs");
    await queue.addMany(Array.from({ length: 60 }, (_, i) => ({ data: { ms: i < 19 ? 0.1 : 60_000 } })));
    let count = 0;
    const worker = queue.work(
      async ({ id, data }) => {
        started(id);
        count++;
        await wait(clock, data.ms);
      },
      { limit: 20 },
    );
    let isStopped = false;
    void worker.stopped.then(() => (isStopped = true));
    await clock.advance(1_000);
    expect([count, isStopped]).toEqual([20, false]);
    await clock.advance(60_000);
    expect([count, isStopped]).toEqual([20, true]);
    expect((await queue.stats()).depth).toMatchObject({ done: 20, ready: 40 });
  });

  it("prefetched tasks that were lost with their session do not count for the worker's limit", async () => {
    await using store = await openTestStore();
    const { clock } = store;
    const { port } = store.dibs;
    const join = port.join.bind(port);
    const listeners: ((notice: ClaimNotice) => void)[] = [];
    port.join = (worker, lease, listener) => {
      listeners.push(listener);
      return join(worker, lease, listener);
    };
    const queue = store.dibs.queue<number>("jobs");
    await queue.addMany(Array.from({ length: 20 }, (_, data) => ({ data })));
    const worker = queue.work(() => wait(clock, 1_000), { prefetch: 4, limit: 5 });
    await clock.advance(500);
    expect(worker.active).toBe(1);
    expect((await queue.stats()).depth.claimed).toBe(5);
    listeners[0]!({ kind: "gone" });
    await clock.advance(4_500);
    expect((await queue.stats()).depth.done).toBe(4);
    await worker.stopped;
  });

  it("tasks whose return to the line failed are found at once, also while handlers take long", async () => {
    await using store = await openTestStore();
    const { clock } = store;
    const { port } = store.dibs;
    const settle = port.settle.bind(port);
    let refused = 0;
    port.settle = (ref, call, within) => {
      if (call.kind !== "release") return settle(ref, call, within);
      refused++;
      return Promise.reject(new DibsError("OUTCOME_UNKNOWN", "The store went away."));
    };
    const queue = store.dibs.queue<number>("jobs");
    await queue.addMany(Array.from({ length: 60 }, (_, data) => ({ data })));
    queue.work(async ({ data }) => wait(clock, data === 30 ? 60_000 : 0.1));
    await clock.advance(500);
    const { depth } = await queue.stats();
    await clock.advance(61_000);
    expect(refused).toBeGreaterThan(0);
    expect(depth).toMatchObject({ done: 30, claimed: 1, ready: 29 });
    expect((await queue.stats()).depth).toMatchObject({ done: 60, claimed: 0 });
  });
});
