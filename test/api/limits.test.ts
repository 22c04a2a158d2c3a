import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { open, type QueueOptions, Retry } from "../../src/index.ts";
import { ManualClock } from "../../src/testing/index.ts";

async function start(options: QueueOptions = {}) {
  const clock = new ManualClock();
  const dibs = await open(":memory:", { clock });
  return { clock, dibs, queue: dibs.queue<number>("calls", options) };
}

/** Waits until all work in progress is done. */
async function calm(clock: ManualClock, ms = 0): Promise<void> {
  await clock.advance(ms);
  for (let i = 0; i < 50; i++) await setImmediate();
}

describe("limits in the public API", () => {
  test("limits are shown with the policy, in milliseconds", async () => {
    const { dibs, queue } = await start({
      maxConcurrency: 3,
      rateLimit: { max: 60, per: "1m" },
      groups: { concurrency: 4, fair: true, weight: { big: 2 } },
      window: "22:00-06:00",
    });
    await queue.ready;
    const [{ policy }] = (await dibs.queues()) as [Awaited<ReturnType<typeof dibs.queues>>[number]];
    expect(policy).toMatchObject({
      maxConcurrency: 3,
      rateLimit: [{ max: 60, per: 60_000, pace: false, unit: null }],
      groups: { concurrency: 4, fair: true, weight: { big: 2 }, sticky: false },
      window: { hours: "22:00-06:00", tz: "UTC" },
    });
    await dibs.close();
  });

  test.each<[string, QueueOptions]>([
    ["maxConcurrency", { maxConcurrency: 0 }],
    ["groups.concurrency", { groups: { concurrency: 0 } }],
    ["weight", { groups: { fair: true, weight: { a: 0 } } }],
    ["fair: true", { groups: { concurrency: 5, weight: { a: 2 } } }],
    ["concurrency of at least 2", { groups: { fair: true, weight: { a: 2 } } }],
    [
      "one task in line at a time",
      { groups: { concurrency: 2, fair: true, weight: { a: 2 }, rateLimit: { max: 1, per: "1s" } } },
    ],
    ["fairness", { groups: { fairness: true } as never }],
    ["window", { window: "at night" }],
    ["rateLimit", { rateLimit: { max: -1, per: "1s" } }],
  ])("a wrong limit is refused at once: %s", async (word, options) => {
    const { dibs } = await start();
    expect(() => dibs.queue("other", options)).toThrow(word);
    await dibs.close();
  });
});

test("configure changes only the group fields that it names, and null resets them", async () => {
  const { dibs, queue } = await start({ groups: { concurrency: 5, rateLimit: { max: 9, per: "1s" } } });
  const { groups } = await queue.configure({ groups: { fair: true } });
  expect(groups).toMatchObject({ concurrency: 5, rateLimit: [{ max: 9 }], fair: true });
  const lifted = await queue.configure({ groups: { rateLimit: null, fair: null } });
  expect(lifted.groups).toMatchObject({ concurrency: 5, rateLimit: [], fair: false });
  expect((await queue.configure({ groups: null })).groups).toMatchObject({ concurrency: 1, rateLimit: [] });
  await dibs.close();
});

test("stats say why no task starts, and until when", async () => {
  const { dibs, queue } = await start({ window: "08:00-09:00" });
  const { createdAt } = await (await queue.add(1)).info();
  expect(createdAt.getUTCHours()).toBe(0);
  const until = new Date(createdAt.getTime() + 8 * 3_600_000);
  expect((await queue.stats()).heldBack).toEqual({ by: "window", until });
  await queue.configure({ window: null, maxConcurrency: 1 });
  expect((await queue.stats()).heldBack).toBe(null);
  await queue.claim();
  await queue.add(2);
  expect((await queue.stats()).heldBack).toEqual({ by: "concurrency", until: null });
  await dibs.close();
});

describe("limits and handlers", () => {
  test("Retry with key: true holds the groupKey, and the attempt does not count", async () => {
    const { clock, dibs, queue } = await start();
    const seen: number[] = [];
    queue.work((task) => {
      seen.push(task.data);
      if (seen.length === 1) throw new Retry("429", { delay: "30s", key: true });
    });
    const [first] = await queue.addMany([1, 2].map((data) => ({ data, groupKey: "provider" })));
    await queue.add(3);
    await calm(clock);
    expect(seen).toEqual([1, 3]);
    await calm(clock, 30_000);
    expect(seen).toEqual([1, 3, 1, 2]);
    expect((await first!.history()).map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
      [1, "limited"],
      [1, "done"],
    ]);
    await dibs.close();
  });

  test("task.spend corrects the cost, and leaves the rest to other tasks", async () => {
    const { clock, dibs, queue } = await start({ rateLimit: { max: 100, per: "1h", unit: "tokens" } });
    const seen: number[] = [];
    queue.work((task) => {
      seen.push(task.data);
      expect(task.cost).toBe(60);
      task.spend(5);
    });
    await queue.addMany([1, 2, 3].map((data) => ({ data, cost: 60 })));
    await calm(clock);
    expect(seen).toEqual([1, 2, 3]);
    await dibs.close();
  });

  test("task.spend refuses a negative number", async () => {
    const { dibs, queue } = await start();
    await queue.add(1);
    const [claim] = await queue.claim();
    expect(() => claim!.spend(-1)).toThrow(/spent.*-1/);
    await claim!.ack();
    await dibs.close();
  });
});

test("unhold ends a hold early", async () => {
  const { dibs, queue } = await start();
  const again = async () => (await queue.claim({ max: 9 })).map(({ data }) => data);
  await queue.add(1, { groupKey: "provider" });
  await (await queue.claim())[0]!.hold(new Error("429"), { delay: "1h" });
  expect(await again()).toEqual([]);
  expect(await queue.unhold("another")).toBe(false);
  expect(await queue.unhold("provider")).toBe(true);
  expect(await again()).toEqual([1]);
  await queue.add(2);
  await (await queue.claim())[0]!.hold(new Error("429"), { delay: "1h" });
  expect(await queue.unhold()).toBe(true);
  expect(await again()).toEqual([2]);
  await expect(queue.unhold("")).rejects.toThrow(/groupKey.*got ""/);
  await dibs.close();
});

test("a manual claim can hold its groupKey", async () => {
  const { clock, dibs, queue } = await start();
  await queue.addMany([1, 2].map((data) => ({ data, groupKey: "provider" })));
  const [claim] = await queue.claim();
  await claim!.hold(new Error("429"), { delay: "10s" });
  expect(await queue.claim({ max: 9 })).toEqual([]);
  await calm(clock, 10_000);
  expect((await queue.claim({ max: 9 })).map(({ data }) => data)).toEqual([1]);
  await dibs.close();
});
