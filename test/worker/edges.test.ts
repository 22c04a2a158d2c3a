import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { defineQueue } from "../../src/index.ts";
import { latch, openStore, STORES } from "../stores.ts";

describe.each(STORES)("edge cases of a worker on %s", (store) => {
  it("a worker takes no more tasks than it can settle: a full queue behind it slows it down", async () => {
    const dibs = await openStore(store);
    const next = dibs.queue<number>("next", { maxDepth: 1 });
    const queue = dibs.queue<number>("work");
    await queue.addMany(Array.from({ length: 50 }, (_, data) => ({ data })));
    let runs = 0;
    const third = latch();
    const worker = queue.work(
      async (task) => {
        if (++runs === 3) third.open();
        await task.add(next, task.data);
      },
      { concurrency: 2 },
    );
    await third.promise;
    const [claim] = await next.claim({ wait: "20s" });
    await claim!.ack();
    await next.claim({ wait: "20s" });
    await expect.poll(async () => (await queue.stats()).depth.done).toBe(3);
    // Tasks whose settlement is retried occupy slots. As many again were claimed before the first refusal.
    expect((await queue.stats()).depth.claimed).toBeLessThanOrEqual(4);
    expect(runs).toBeLessThanOrEqual(3 + 4);
    await worker.stop({ timeout: 0 });
  });

  it("task.extend gives an attempt more time", async () => {
    const dibs = await openStore(store);
    // Long enough for a busy machine to get the extension through before it ends.
    const timeout = 1_500;
    const queue = dibs.queue("work", { timeout, maxAttempts: 1 });
    const task = await queue.add(1);
    queue.work(async (held) => {
      await held.extend("20s");
      await new Promise((resolve) => setTimeout(resolve, 1.2 * timeout));
      return "in time";
    });
    expect(await task.result()).toBe("in time");
  });

  it("a task fails if its handler did not await an ack that was refused", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number, string>("work", { maxAttempts: 1, maxPayload: 100 });
    const task = await queue.add(1);
    queue.work((held) => {
      held.ack("x".repeat(101)).catch(() => {});
      return "never mind";
    });
    await expect(task.result()).rejects.toMatchObject({
      code: "TASK_DEAD",
      message: expect.stringMatching(/103 bytes/),
    });
  });

  it("a worker adds what its handler added, also if the handler did not await it", async () => {
    const dibs = await openStore(store);
    const next = dibs.queue<number>("next");
    const queue = dibs.queue("work");
    queue.work((held) => {
      void held.add(next, 1);
      return 2;
    });
    expect(await (await queue.add(1)).result()).toBe(2);
    expect((await next.stats()).depth.ready).toBe(1);
  });

  it("a worker serves definitions, each queue once, and refuses anything else", async () => {
    const dibs = await openStore(store);
    const worker = dibs.work([defineQueue("a"), "a", dibs.queue("b")], () => {});
    await worker.ready;
    expect((await dibs.workers())[0]!.queues).toEqual(["a", "b"]);
    expect(() => dibs.work([5 as never], () => {})).toThrow(/names, handles or definitions; got 5/);
  });

  it("a second stop with a shorter timeout stops the worker sooner", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("work");
    await queue.add(1);
    const started = latch();
    const worker = queue.work(() => {
      started.open();
      return new Promise(() => {});
    });
    await started.promise;
    const stopped = worker.stop({ timeout: "10m" });
    await expect.poll(async () => (await queue.stats()).depth.claimed).toBe(1);
    void worker.stop({ timeout: 0 });
    await stopped;
    expect((await queue.stats()).depth.ready).toBe(1);
  });

  it("options that are not an object are refused everywhere", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("work");
    const task = await queue.add(1);
    const invalid = expect.objectContaining({ code: "INVALID" });
    await expect(task.result(200 as never)).rejects.toEqual(invalid);
    await expect(task.result(null as never)).rejects.toEqual(invalid);
    await expect(dibs.workers(5 as never)).rejects.toEqual(invalid);
    expect(() => queue.work(() => {}, 10 as never)).toThrow(invalid);
    const [claim] = await queue.claim();
    await expect(claim!.nack("no", 5000 as never)).rejects.toEqual(invalid);
    await expect(claim!.ack(undefined, { tx: {} })).rejects.toMatchObject({
      code: store === "postgres" ? "INVALID" : "UNSUPPORTED",
    });
  });

  it("a redrive works at any rate", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("work");
    await queue.addMany([{ data: 1 }, { data: 2 }]);
    for (const claim of await queue.claim({ max: 2 })) await claim.reject("no");
    expect(await queue.dead.redrive({ rate: { max: 7, per: "1h" } })).toEqual({ count: 2 });
    expect((await queue.stats()).depth).toMatchObject({ ready: 1, scheduled: 1 });
  });

  it("a purge answers callers that wait for the result", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("work");
    const result = (await queue.add(1)).result();
    await queue.purge();
    await expect(result).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
  });
});

it("a process stays alive while its worker waits for a handler that has no timer or handle", async () => {
  const program = `
    import { open } from ${JSON.stringify(new URL("../../src/index.ts", import.meta.url).href)};
    const dibs = await open(":memory:");
    const queue = dibs.queue("work", { timeout: 300, maxAttempts: 1 });
    const task = await queue.add(1);
    const worker = queue.work(() => new Promise(() => {}));
    queue.dead.list();
    process.on("exit", (code) => console.log("exit", code));
    setTimeout(async () => {
      console.log((await task.info()).state);
      await worker.stop();
    }, 700).unref();
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  child.stdout.on("data", (data: Buffer) => (said += data.toString()));
  await once(child, "close");
  expect(said).toBe("dead\nexit 0\n");
});
