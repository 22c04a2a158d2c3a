import { describe, expect, it } from "vitest";
import { Reject, Retry, type Task } from "../../src/index.ts";
import { ManualClock } from "../../src/testing/index.ts";
import { latch, openStore, STORES } from "../stores.ts";

const QUICK = { backoff: { type: "fixed", delay: 0, jitter: 0 } } as const;

describe.each(STORES)("a worker on %s", (store) => {
  it("a worker acks with what its handler returns, or with nothing", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number>("work");
    queue.work(({ data }) => (data === 1 ? { one: true } : undefined));
    const [one, two] = await queue.addMany([{ data: 1 }, { data: 2 }]);
    expect(await one!.result()).toEqual({ one: true });
    expect(await two!.result()).toBeUndefined();
  });

  it("a worker retries a task whose handler threw, and the ledger has a row for each attempt", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("work", QUICK);
    const task = await queue.add(1);
    const worker = queue.work(({ attempt }) => {
      if (attempt < 3) throw new RangeError(`attempt ${attempt}`);
      return "third time";
    });
    expect(await task.result()).toBe("third time");
    expect(await task.history()).toMatchObject([
      {
        attempt: 1,
        worker: worker.id,
        outcome: "failed",
        error: {
          name: "RangeError",
          message: "attempt 1",
          stack: expect.stringContaining("worker.test.ts"),
          fingerprint: "RangeError: attempt <n>",
        },
      },
      { attempt: 2, outcome: "failed" },
      { attempt: 3, outcome: "done", error: null },
    ]);
  });

  it("Reject makes a task dead at once, and Retry sets its delay", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<string>("work");
    const [rejected, later] = await queue.addMany([{ data: "reject" }, { data: "retry" }]);
    const retried = latch();
    queue.work(({ data }) => {
      if (data === "reject") throw new Reject("malformed");
      queueMicrotask(() => retried.open());
      throw new Retry("busy", { delay: "1h" });
    });
    await expect(rejected!.result()).rejects.toMatchObject({
      code: "TASK_DEAD",
      message: expect.stringContaining("malformed"),
    });
    await retried.promise;
    await expect.poll(async () => (await later!.info()).state).toBe("scheduled");
    const { dueAt } = await later!.info();
    expect(dueAt!.getTime()).toBeGreaterThan(Date.now() + 3_500_000);
  });

  it("Retry and Reject are recognised by their code, from any copy of the library", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("work");
    const task = await queue.add(1);
    queue.work(() => {
      throw Object.assign(new Error("from elsewhere"), { code: "REJECT" });
    });
    await expect(task.result()).rejects.toMatchObject({ code: "TASK_DEAD" });
    expect(await task.history()).toMatchObject([{ outcome: "rejected" }]);
  });

  it("a worker calls as many handlers at once as its concurrency", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number>("work");
    const tasks = await queue.addMany(Array.from({ length: 30 }, (_, data) => ({ data })));
    let running = 0;
    let most = 0;
    queue.work(
      async () => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setImmediate(resolve));
        running--;
      },
      { concurrency: 7, prefetch: 5 },
    );
    await Promise.all(tasks.map((task) => task.result()));
    expect(most).toBe(7);
  });

  it("a worker holds prefetched tasks, and releases them when it stops", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number>("work");
    await queue.addMany(Array.from({ length: 5 }, (_, data) => ({ data })));
    const started = latch();
    const finish = latch();
    const worker = queue.work(
      async () => {
        started.open();
        await finish.promise;
      },
      { prefetch: 3 },
    );
    await started.promise;
    expect((await queue.stats()).depth).toMatchObject({ claimed: 4, ready: 1 });
    const stopped = worker.stop();
    finish.open();
    await stopped;
    expect((await queue.stats()).depth).toMatchObject({ claimed: 0, ready: 4, done: 1 });
    const { tasks } = await queue.tasks({ state: "ready" });
    expect(tasks.map((task) => [task.data, task.attempt])).toEqual([1, 2, 3, 4].map((data) => [data, 1]));
  });

  it("a worker that stops releases tasks of claims that were in progress", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("work");
    const all = 1_000;
    await queue.addMany(Array.from({ length: all }, (_, data) => ({ data })));
    const enough = latch();
    let handled = 0;
    const worker = queue.work(
      () => {
        if (++handled === 300) enough.open();
      },
      { concurrency: 50, prefetch: 50 },
    );
    await enough.promise;
    await worker.stop({ timeout: "1m" });
    expect((await queue.stats()).depth).toMatchObject({ ready: all - handled, claimed: 0, done: handled });
  });

  it("a worker serves queues strictly in order, or in rotation", async () => {
    const dibs = await openStore(store);
    for (const name of ["urgent", "routine"]) {
      await dibs.queue(name).addMany(Array.from({ length: 4 }, (_, n) => ({ data: `${name} ${n}` })));
    }
    const seen = await workThrough(8, (done) => dibs.work(["urgent", "routine"], done, { order: "strict" }));
    expect(seen.map((data) => data.split(" ")[0])).toEqual([
      ...Array(4).fill("urgent"),
      ...Array(4).fill("routine"),
    ]);

    for (const name of ["urgent", "routine"]) {
      await dibs.queue(name).addMany(Array.from({ length: 4 }, (_, n) => ({ data: `${name} ${n}` })));
    }
    const fair = await workThrough(8, (done) => dibs.work(["urgent", "routine"], done, { order: "fair" }));
    expect(fair.slice(0, 4).filter((data) => data.startsWith("urgent"))).toHaveLength(2);
  });

  it("each task of a batch handler has its own outcome", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number, string>("batch", { maxAttempts: 1 });
    const tasks = await queue.addMany([0, 1, 2, 3].map((data) => ({ data })));
    const sizes: number[] = [];
    queue.workBatch(
      async (batch) => {
        sizes.push(batch.length);
        await batch[0]!.ack("acked by hand");
        await batch[1]!.reject(new Error("rejected by hand"));
        throw new Error("the rest");
      },
      { max: 4 },
    );
    expect(await tasks[0]!.result()).toBe("acked by hand");
    await expect(tasks[1]!.result()).rejects.toThrow(/rejected by hand/);
    await expect(tasks[2]!.result()).rejects.toThrow(/the rest/);
    await expect(tasks[3]!.result()).rejects.toThrow(/the rest/);
    expect(sizes).toEqual([4]);
  });

  it("a batch handler returns results in the order of its tasks", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number, number>("batch");
    const tasks = await queue.addMany([1, 2, 3].map((data) => ({ data })));
    queue.workBatch((batch) => batch.map(({ data }) => data * 10), { max: 3 });
    expect(await Promise.all(tasks.map((task) => task.result()))).toEqual([10, 20, 30]);
  });

  it("tasks added by a handler commit with the ack or not at all", async () => {
    const dibs = await openStore(store);
    const next = dibs.queue<string>("next", { maxAttempts: 7 });
    const queue = dibs.queue<string>("work", { ...QUICK, maxAttempts: 1 });
    queue.work(async (task) => {
      await task.add(next, `from ${task.data}`, { priority: 1 });
      expect((await next.stats()).depth.ready).toBe(task.data === "good" ? 0 : 1);
      if (task.data === "bad") throw new Error("no");
    });
    await (await queue.add("good")).result();
    await expect((await queue.add("bad")).result()).rejects.toMatchObject({ code: "TASK_DEAD" });
    expect((await next.claim({ max: 5 })).map((claim) => [claim.data, claim.maxAttempts])).toEqual([
      ["from good", 7],
    ]);
  });

  it("an attempt fails if its result is too large or cannot be encoded", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<string>("work", { maxAttempts: 1, maxPayload: 100 });
    queue.work(({ data }) => (data === "large" ? "x".repeat(101) : { data: 1n }));
    const [large, odd] = await queue.addMany([{ data: "large" }, { data: "odd" }]);
    await expect(large!.result()).rejects.toThrow(/101|103 bytes/);
    await expect(odd!.result()).rejects.toThrow(/cannot carry/);
  });

  it("a running task shows its progress", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("work");
    const task = await queue.add(1);
    const halfway = latch();
    const finish = latch();
    queue.work(async (held) => {
      await held.progress(0.5, "drafting");
      halfway.open();
      await finish.promise;
    });
    await halfway.promise;
    expect(await task.info()).toMatchObject({ state: "claimed", progress: { value: 0.5, note: "drafting" } });
    finish.open();
    await task.result();
    expect((await task.info()).progress).toBeNull();
  });

  it("the signal of a cancelled task aborts, and the task ends cancelled whatever its handler answers", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("work");
    const task = await queue.add(1);
    const started = latch();
    const aborted = latch<unknown>();
    queue.work(async ({ signal }) => {
      signal.addEventListener("abort", () => aborted.open(signal.reason));
      started.open();
      await aborted.promise;
      return "too late";
    });
    await started.promise;
    await task.cancel();
    expect(await aborted.promise).toMatchObject({ code: "TASK_CANCELLED" });
    await expect(task.result()).rejects.toMatchObject({ code: "TASK_CANCELLED" });
    expect(await task.history()).toMatchObject([{ outcome: "cancelled" }]);
  });

  it("a handler that never ends fails at its timeout, and frees its slot", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<string>("work", { ...QUICK, timeout: 50, maxAttempts: 1 });
    const reasons: unknown[] = [];
    queue.work(({ data, signal }) => {
      signal.addEventListener("abort", () => reasons.push(signal.reason));
      return data === "stuck" ? new Promise(() => {}) : "done";
    });
    const [stuck, next] = await queue.addMany([{ data: "stuck" }, { data: "next" }]);
    expect(await next!.result()).toBe("done");
    await expect(stuck!.result()).rejects.toMatchObject({
      code: "TASK_DEAD",
      message: expect.stringContaining("timeout"),
    });
    expect(await stuck!.history()).toMatchObject([{ outcome: "timeout" }]);
    expect(reasons).toMatchObject([{ code: "TIMEOUT" }]);
  });

  it("a worker gives up its sticky groups when it begins to stop, not when its last handler ends", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<string, string>("work", { groups: { sticky: true } });
    const started = latch();
    const end = latch();
    const first = queue.work(async ({ data }) => {
      if (data === "long") {
        started.open();
        await end.promise;
      }
      return "first";
    });
    await (await queue.add("short", { groupKey: "talk" })).result();
    const long = await queue.add("long", { groupKey: "other" });
    await started.promise;
    const next = await queue.add("short", { groupKey: "talk" });
    await queue.work(() => "second").ready;
    const stopped = first.stop();
    expect(await next.result({ timeout: "10s" })).toBe("second");
    expect(await long.info()).toMatchObject({ state: "claimed" });
    end.open();
    await stopped;
    expect(await long.result()).toBe("first");
    expect(await long.history()).toHaveLength(1);
  });

  it("a stopping worker aborts its handlers' signals first, and a throw after that is a release", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<string>("work");
    await queue.addMany([{ data: "polite" }, { data: "deaf" }]);
    const started: Task[] = [];
    const both = latch();
    const worker = queue.work(
      async (task) => {
        if (started.push(task) === 2) both.open();
        await new Promise((_, reject) => {
          if (task.data === "polite")
            task.signal.addEventListener("abort", () => reject(new Error("stopping")));
        });
      },
      { concurrency: 2 },
    );
    await both.promise;
    await worker.stop({ timeout: 50 });
    expect((await queue.stats()).depth).toMatchObject({ ready: 2, claimed: 0 });
    const { tasks } = await queue.tasks({ state: "ready" });
    expect(tasks.map((task) => task.attempt)).toEqual([1, 1]);
    await expect(started.find((task) => task.data === "deaf")!.ack()).rejects.toMatchObject({
      code: "CLAIM_LOST",
    });
  });

  it("a worker is listed while it lives", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("work");
    const worker = queue.work(() => {}, { name: "ada", concurrency: 3 });
    await worker.ready;
    expect(await dibs.workers()).toMatchObject([
      { id: worker.id, name: "ada", queues: ["work"], concurrency: 3, pid: process.pid },
    ]);
    expect((await queue.stats()).workers).toBe(1);
    await worker.stop();
    expect(await dibs.workers({ queue: "work" })).toEqual([]);
  });

  it("a worker stops with its dibs handle, and with its scope", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("work");
    {
      await using worker = queue.work(() => {});
      await worker.ready;
      expect(await dibs.workers()).toHaveLength(1);
    }
    expect(await dibs.workers()).toHaveLength(0);
    queue.work(() => {});
    await dibs.close();
  });

  it("an hour passes in a moment on a manual clock", async () => {
    const clock = new ManualClock();
    // Housekeeping runs on the manual clock too: with a poll every two seconds there would be thousands.
    const dibs = await openStore(store, { clock, poll: "5m" });
    const queue = dibs.queue("work");
    const task = await queue.add(1, { delay: "1h" });
    queue.work(() => "at last");
    await clock.advance(3_600_000 - 1);
    expect((await task.info()).state).toBe("scheduled");
    await clock.advance(1);
    expect(await task.result()).toBe("at last");
  });

  async function workThrough(
    count: number,
    start: (handler: (task: Task) => void) => { stop(): Promise<void> },
  ) {
    const seen: string[] = [];
    const all = latch();
    const worker = start((task) => {
      if (seen.push(task.data as string) === count) all.open();
    });
    await all.promise;
    await worker.stop();
    return seen;
  }
});
