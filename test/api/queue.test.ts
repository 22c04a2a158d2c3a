import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineQueue } from "../../src/index.ts";
import { openStore, STORES } from "../stores.ts";

describe.each(STORES)("a queue on %s", (store) => {
  it("a task's handle resolves with its result", async () => {
    const dibs = await openStore(store);
    const sums = dibs.queue<{ a: number; b: number }, number>("sums");
    const task = await sums.add({ a: 2, b: 3 });
    expect(task.existing).toBe(false);
    sums.work(({ data }) => data.a + data.b);
    expect(await task.result()).toBe(5);
    expect(await dibs.task<number>(task.id).result()).toBe(5);
  });

  it("values that JSON can carry come back unchanged", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("values");
    const values = [
      null,
      true,
      "",
      "ünï ☃ 😀 \u0000",
      0,
      -1.5,
      [],
      {},
      { a: [1, { b: null }] },
      "x".repeat(10_000),
    ];
    await queue.addMany(values.map((data) => ({ data })));
    const claims = await queue.claim({ max: 100 });
    expect(claims.map((claim) => claim.data)).toEqual(values);
  });

  it("the same idempotencyKey returns the same task", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("keys");
    const first = await queue.add(1, { idempotencyKey: "k" });
    const second = await queue.add(2, { idempotencyKey: "k" });
    expect(second).toMatchObject({ id: first.id, existing: true });
    expect((await queue.stats()).depth.ready).toBe(1);
  });

  it("a queue's policy commits with its first operation", async () => {
    const dibs = await openStore(store);
    await dibs.queue("emails", { lease: "10s", maxAttempts: 2 }).add(1);
    expect(await dibs.queues()).toMatchObject([
      { name: "emails", policy: { lease: 10_000, maxAttempts: 2, timeout: 3_600_000 } },
    ]);
  });

  it("repeating a declaration keeps an operator's change", async () => {
    const dibs = await openStore(store);
    await dibs.queue("emails", { maxAttempts: 2 }).ready;
    await dibs.queue("emails").configure({ maxAttempts: 9 });
    await dibs.queue("emails", { maxAttempts: 2 }).ready;
    expect((await dibs.queues())[0]!.policy.maxAttempts).toBe(9);
    await dibs.queue("emails", { maxAttempts: 3 }).ready;
    expect((await dibs.queues())[0]!.policy.maxAttempts).toBe(3);
  });

  it("operations of one handle take effect in the order of the calls, awaited or not", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("order");
    const added = queue.add("purged");
    const purged = queue.purge();
    const kept = queue.add("kept");
    await Promise.all([added, purged, kept]);
    expect(await purged).toEqual({ count: 1 });
    expect((await queue.claim({ max: 5 })).map((claim) => claim.data)).toEqual(["kept"]);
  });

  it("any Standard Schema validates, and its output is stored", async () => {
    const dibs = await openStore(store);
    const definition = defineQueue("typed", {
      schema: z.object({ to: z.email(), copies: z.string().transform(Number) }),
      result: z.object({ sent: z.boolean() }),
    });
    const queue = dibs.queue(definition);
    await expect(queue.add({ to: "nobody", copies: "2" })).rejects.toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("to: "),
    });
    const task = await queue.add({ to: "ada@example.com", copies: "2" });
    queue.work(({ data }) => ({ sent: data.copies === 2 }));
    expect(await task.result()).toEqual({ sent: true });
  });

  it("an attempt fails if the schema refuses its result", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue(
      defineQueue("bad-results", { schema: z.number(), result: z.string(), maxAttempts: 1 }),
    );
    const task = await queue.add(1);
    queue.work(() => 42 as unknown as string);
    await expect(task.result()).rejects.toMatchObject({
      code: "TASK_DEAD",
      message: expect.stringContaining("schema refused"),
    });
  });

  it("the order of calls is kept with an asynchronous validator", async () => {
    const dibs = await openStore(store);
    let delay = 20;
    const slow = z.string().refine(async () => {
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, (delay -= 10))));
      return true;
    });
    const queue = dibs.queue(defineQueue("slow", { schema: slow }));
    await Promise.all([queue.add("first"), queue.add("second")]);
    expect((await queue.claim({ max: 2 })).map((claim) => claim.data)).toEqual(["first", "second"]);
  });

  it("a task does not start before its delay or runAt", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("later");
    await queue.add("in an hour", { delay: "1h" });
    await queue.add("on a date", { runAt: new Date(Date.now() + 60_000) });
    await queue.add("at once", { runAt: new Date(0) });
    expect((await queue.claim({ max: 9 })).map((claim) => claim.data)).toEqual(["at once"]);
    expect((await queue.stats()).depth.scheduled).toBe(2);
  });

  it("a queue can be paused, resumed, purged and deleted", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("care");
    await queue.addMany([{ data: 1 }, { data: 2 }]);
    await queue.pause();
    expect(await queue.claim()).toEqual([]);
    expect((await queue.stats()).paused).toBe(true);
    await queue.resume();
    const [claim] = await queue.claim();
    expect(await queue.purge()).toEqual({ count: 1 });
    await queue.delete();
    expect(await dibs.queues()).toEqual([]);
    await expect(claim!.ack()).rejects.toMatchObject({ code: "CLAIM_LOST" });
  });

  it("tasks are listed by state, page by page", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("pages");
    await queue.addMany([1, 2, 3].map((data) => ({ data })));
    const first = await queue.tasks({ state: "ready", limit: 2 });
    const second = await queue.tasks({ state: "ready", limit: 2, after: first.next! });
    expect([...first.tasks, ...second.tasks].map((task) => task.data)).toEqual([1, 2, 3]);
    expect(second.next).toBeNull();
  });

  it("result throws the right error for each way to end", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("ends");
    const [dead, cancelled, expired, slow] = await queue.addMany([
      { data: "dead", priority: 1 },
      { data: "cancelled" },
      { data: "expired", ttl: 1 },
      { data: "slow", delay: "1h" },
    ]);
    const [claim] = await queue.claim();
    await claim!.reject(new Error("no use"));
    await expect(dead!.result()).rejects.toMatchObject({
      code: "TASK_DEAD",
      cause: expect.objectContaining({ message: "no use" }),
    });
    expect(await cancelled!.cancel()).toBe("cancelled");
    await expect(cancelled!.result()).rejects.toMatchObject({ code: "TASK_CANCELLED" });
    await expect(expired!.result()).rejects.toMatchObject({ code: "TASK_EXPIRED" });
    await expect(slow!.result({ timeout: 1 })).rejects.toMatchObject({ code: "TIMEOUT", retryable: true });
  });
});
