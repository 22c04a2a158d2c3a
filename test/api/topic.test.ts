import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTopic, type Task } from "../../src/index.ts";
import { latch, openStore, STORES } from "../stores.ts";

interface Order {
  id: number;
}

/** Resolves with the values that `take` got, once there are `count`. */
function collect<T>(count: number): { all: Promise<T[]>; take: (value: T) => void } {
  const done = latch<T[]>();
  const values: T[] = [];
  return {
    all: done.promise,
    take: (value) => {
      if (values.push(value) === count) done.open(values);
    },
  };
}

describe.each(STORES)("a topic on %s", (store) => {
  it("a message reaches every group once, and one worker of each", async () => {
    const dibs = await openStore(store);
    const placed = dibs.topic<Order>("order.placed");
    const stock = collect<string>(20);
    const numbers = collect<number>(20);
    const audited = collect<string | null>(20);
    for (const worker of ["a", "b"]) {
      const handler = ({ data }: Task<Order>) => stock.take(`${data.id}`);
      placed.subscribe("inventory", handler, { concurrency: 3, name: worker });
    }
    placed.subscribe("analytics", (task) => numbers.take(task.data.id));
    // Not awaited: calls take effect in their order.
    const audit = dibs.subscribe<Order>("order.*", "audit", ({ topic }) => audited.take(topic));
    const ids = Array.from({ length: 20 }, (_, id) => id);
    const published = await Promise.all(ids.map((id) => placed.publish({ id })));
    expect(published.map(({ reached }) => reached)).toEqual(ids.map(() => 3));
    expect((await stock.all).toSorted()).toEqual(ids.map(String).toSorted());
    expect(await numbers.all).toEqual(ids);
    expect(await audited.all).toEqual(ids.map(() => "order.placed"));
    expect(audit.queues).toEqual(["topic/order.:one/audit"]);
  });

  it("publish returns how many groups it reached, also none, and the handle of each task", async () => {
    const dibs = await openStore(store);
    const placed = dibs.topic<Order>("order.placed");
    expect(await placed.publish({ id: 1 })).toEqual({ reached: 0, tasks: [] });
    await placed.subscription("inventory").ready;
    const { reached, tasks } = await placed.publish({ id: 2 }, { idempotencyKey: "k" });
    expect([reached, tasks[0]!.queue]).toEqual([1, "topic/order.placed/inventory"]);
    placed.subscribe<number>("inventory", ({ data }) => data.id * 10);
    expect(await tasks[0]!.result()).toBe(20);
    const again = await placed.publish({ id: 3 }, { idempotencyKey: "k" });
    expect(again.tasks.map(({ id, existing }) => [id, existing])).toEqual([[tasks[0]!.id, true]]);
  });

  it("a subscription lasts, and can be operated like any queue", async () => {
    const dibs = await openStore(store);
    const placed = dibs.topic<Order>("order.placed");
    const worker = placed.subscribe("inventory", () => {}, { maxDepth: 2, ttl: "1h", maxAttempts: 1 });
    await worker.ready;
    await worker.stop();
    const inventory = placed.subscription("inventory");
    await placed.publish({ id: 1 });
    await placed.publish({ id: 2 });
    await expect(placed.publish({ id: 3 })).rejects.toMatchObject({ code: "QUEUE_FULL" });
    expect((await inventory.stats()).depth).toMatchObject({ ready: 2 });
    expect(await dibs.queues()).toMatchObject([{ policy: { maxDepth: 2, ttl: 3_600_000, maxAttempts: 1 } }]);
    const [claim] = await inventory.claim();
    await claim!.reject(new Error("no such shelf"));
    expect((await inventory.dead.list()).tasks).toMatchObject([
      { data: { id: 1 }, headers: { "dibs-topic": "order.placed" } },
    ]);
    expect(await dibs.subscriptions()).toMatchObject([
      { pattern: "order.placed", group: "inventory", queue: inventory.name, createdAt: expect.any(Date) },
    ]);
    expect(await dibs.subscriptions({ topic: "order.paid" })).toEqual([]);
  });

  it("unsubscribing removes a group, and subscribing again starts empty", async () => {
    const dibs = await openStore(store);
    const placed = dibs.topic<Order>("order.placed");
    const inventory = placed.subscription("inventory", { maxDepth: 9 });
    await inventory.ready;
    await placed.publish({ id: 1 });
    expect(await placed.unsubscribe("inventory")).toBe(true);
    expect(await placed.unsubscribe("inventory")).toBe(false);
    expect(await dibs.unsubscribe("order.*", "inventory")).toBe(false);
    expect((await placed.publish({ id: 2 })).reached).toBe(0);
    expect(await dibs.queues()).toEqual([]);
    await placed.subscription("inventory").ready;
    expect((await placed.publish({ id: 3 })).reached).toBe(1);
    await inventory.delete();
    expect(await dibs.subscriptions()).toEqual([]);
  });

  it("a message that a handler publishes is sent when its task succeeds, and not when it fails", async () => {
    const dibs = await openStore(store);
    const placed = dibs.topic<Order>("order.placed");
    const checkouts = dibs.queue<Order>("checkouts", { backoff: { type: "fixed", delay: 0 }, elsewhere: 0 });
    const inventory = placed.subscription("inventory");
    await inventory.ready;
    checkouts.work(async (task) => {
      await task.publish(placed, { id: task.attempt }, { priority: 3 });
      if (task.attempt === 1) throw new Error("card refused");
    });
    await (await checkouts.add({ id: 1 })).result();
    const claims = await inventory.claim({ max: 9 });
    expect(claims.map(({ data, priority, topic }) => ({ data, priority, topic }))).toEqual([
      { data: { id: 2 }, priority: 3, topic: "order.placed" },
    ]);
    const [plain] = await checkouts.tasks({ state: "done" }).then(({ tasks }) => tasks);
    expect(plain!.headers).toEqual({});
  });

  it("a topic's schema checks messages, and the order of the calls is kept", async () => {
    const dibs = await openStore(store);
    const slow = z.number().transform(async (n) => {
      await new Promise((resolve) => setImmediate(resolve));
      return `${n}`;
    });
    const placed = dibs.topic(defineTopic("order.placed", { schema: z.object({ id: slow }) }));
    const inventory = placed.subscription("inventory");
    await inventory.ready;
    await Promise.all([placed.publish({ id: 1 }), placed.publish({ id: 2 }), placed.publish({ id: 3 })]);
    const claims = await inventory.claim({ max: 9 });
    expect(claims.map(({ data }) => data.id)).toEqual(["1", "2", "3"]);
    await expect(placed.publish({ id: "x" as never })).rejects.toMatchObject({ code: "INVALID" });
  });

  it("bad topics, patterns and messages are refused before anything happens", async () => {
    const dibs = await openStore(store);
    const topic = dibs.topic("a.b");
    const invalid = { code: "INVALID" };
    expect(() => dibs.topic("a.*")).toThrow(/words of letters.*"a\.\*"/);
    expect(() => dibs.topic("a", { lease: "1s" } as never)).toThrow(/Unknown topic option "lease"/);
    expect(() => defineTopic("")).toThrow(expect.objectContaining(invalid));
    expect(() => topic.subscribe("g", undefined as never)).toThrow(
      /subscribe\(\) takes a handler function second/,
    );
    expect(() => dibs.subscribe("a", "g", {} as never)).toThrow(/handler function third/);
    expect(() => topic.subscribe("g", () => {}, { concurency: 2 } as never)).toThrow(
      /"concurency".*concurrency/,
    );
    expect(() => topic.subscribe("g", () => {}, { concurrency: 0 })).toThrow(/concurrency/);
    expect(() => topic.subscription("g g")).toThrow(/group/);
    expect(() => dibs.subscription("a*", "g")).toThrow(/pattern/);
    await expect(topic.publish(1, { dealy: "1s" } as never)).rejects.toThrow(
      /Unknown publish option "dealy"/,
    );
    await expect(topic.publish(undefined)).rejects.toMatchObject(invalid);
    await expect(dibs.subscriptions({ topc: "a" } as never)).rejects.toMatchObject(invalid);
    const [claim] = await claimed(dibs.queue("q"));
    await expect(claim!.publish("a.b" as never, 1)).rejects.toThrow(/takes a topic handle first/);
    await expect(claim!.publish(topic, 1, { tx: {} } as never)).rejects.toThrow(/tx .* task\.ack/);
    expect(await dibs.subscriptions()).toEqual([]);
  });
});

async function claimed(queue: ReturnType<Awaited<ReturnType<typeof openStore>>["queue"]>) {
  await queue.add(1);
  return queue.claim();
}
