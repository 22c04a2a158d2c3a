import { describe, expect, onTestFinished, test } from "vitest";
import { SILENT } from "../../src/core/process/logger.ts";
import { Retry } from "../../src/index.ts";
import { openTestStore, type TestStore } from "../../src/testing/index.ts";

async function setUp(): Promise<TestStore> {
  const store = await openTestStore({ logger: SILENT });
  onTestFinished(() => store.close());
  return store;
}

describe("drain()", () => {
  test("drain handles what can run now, and what its tasks add", async () => {
    const store = await setUp();
    const queue = store.dibs.queue<number, string>("work");
    await queue.addMany([{ data: 1 }, { data: 2 }]);
    await queue.add(3, { delay: "1h" });
    const seen: number[] = [];
    const drained = await store.drain(queue, {
      handler: async (task) => {
        seen.push(task.data);
        if (task.data === 1) await task.add(queue, 4);
        return "done";
      },
    });
    expect(drained).toEqual({ done: 3, dead: 0 });
    expect(seen).toEqual([1, 2, 4]);
    expect(await store.added("work")).toMatchObject([{ data: 3, state: "scheduled" }]);
  });

  test("drain with scheduled moves the clock through delays and retries", async () => {
    const store = await setUp();
    const queue = store.dibs.queue<string>("work", { maxAttempts: 3 });
    const began = store.clock.read().wall;
    await queue.add("later", { delay: "2d" });
    const handler = (): void => {
      throw new Error("broken");
    };
    expect(await store.drain(queue, { handler, scheduled: true })).toEqual({ done: 0, dead: 1 });
    expect(store.clock.read().wall - began).toBeGreaterThan(2 * 86_400_000);
  });

  test.each([
    ["a rate", { rateLimit: { max: 2, per: "1m" } }],
    ["a paced rate", { rateLimit: { max: 2, per: "1m", pace: true } }],
    ["a rate of its group", { groups: { rateLimit: { max: 2, per: "1m" } } }],
    ["hours", { window: "01:00-02:00" }],
  ] as const)("drain with scheduled moves the clock past %s that holds tasks back", async (_, limits) => {
    const store = await setUp();
    const queue = store.dibs.queue<number, string>("work", limits);
    await queue.addMany([1, 2, 3, 4, 5].map((data) => ({ data, groupKey: "a" })));
    const handler = (): string => "done";
    const atOnce = await store.drain(queue, { handler });
    expect(atOnce.done).toBeLessThan(5);
    expect(await store.drain(queue, { handler, scheduled: true })).toEqual({
      done: 5 - atOnce.done,
      dead: 0,
    });
  });

  test("drain with scheduled moves the clock past a hold", async () => {
    const store = await setUp();
    const queue = store.dibs.queue<number, string>("work");
    const [first] = await queue.addMany([{ data: 1 }, { data: 2 }]);
    let calls = 0;
    const handler = (): string => {
      if (++calls < 4) throw new Retry("429", { delay: "1h", key: true });
      return "done";
    };
    expect(await store.drain(queue, { handler, scheduled: true })).toEqual({ done: 2, dead: 0 });
    expect((await first!.history()).map(({ outcome }) => outcome)).toEqual([
      "limited",
      "limited",
      "limited",
      "done",
    ]);
  });

  test("drain without a handler waits for the workers of the code under test", async () => {
    const store = await setUp();
    const queue = store.dibs.queue<number, number>("work");
    queue.work(async ({ data }) => data * 2);
    const task = await queue.add(21);
    expect(await store.drain("work")).toEqual({ done: 1, dead: 0 });
    expect((await task.info()).result).toBe(42);
  });

  test("drain of a queue without a worker says what to do, and a paused queue is drained", async () => {
    const store = await setUp();
    const queue = store.dibs.queue("work");
    await queue.add(1);
    await expect(store.drain("work")).rejects.toThrow("drain(queue, { handler })");
    await queue.pause();
    expect(await store.drain("work")).toEqual({ done: 0, dead: 0 });
    await queue.configure({ window: "01:00-02:00" });
    expect(await store.drain("work", { scheduled: true })).toEqual({ done: 0, dead: 0 });
  });
});

describe("what was added", () => {
  test("assertAdded finds a task by part of its data and by its options", async () => {
    const store = await setUp();
    const queue = store.dibs.queue("emails");
    await queue.add({ to: { name: "Ada" }, tags: ["a", "b"] }, { priority: 5, groupKey: "g" });
    const match = { data: { to: { name: "Ada" }, tags: ["a", "b"] }, priority: 5, groupKey: "g" };
    expect(await store.assertAdded(queue, match)).toMatchObject({ priority: 5 });
    for (const other of [{ data: { to: "Ada" } }, { data: { tags: ["a"] } }, { priority: 4 }])
      await store.refuteAdded(queue, other);
  });

  test("a failed assertion says what there is instead", async () => {
    const store = await setUp();
    const match = { data: { to: "eve" } };
    await expect(store.assertAdded("emails", match)).rejects.toThrow("It has no tasks.");
    await store.dibs.queue("emails").add({ to: "ada" });
    await expect(store.assertAdded("emails", match)).rejects.toThrow(
      'No task with {"data":{"to":"eve"}} in queue emails. It has {"to":"ada"}.',
    );
    await expect(store.refuteAdded("emails")).rejects.toThrow("was added to queue emails");
  });
});
