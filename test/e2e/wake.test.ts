import { describe, expect } from "vitest";
import { actsOf, pause, test } from "./harness/stage.ts";
import { expectIdle, usageOf } from "./harness/usage.ts";

/** The safety poll is every 2 s: what takes less was not waiting for it. Usual is a few milliseconds. */
const SOON_MS = 1_000;
const ROUNDS = 15;
/** A heartbeat is due every ten seconds, so that each process makes one in the meantime. */
const IDLE_MS = 10_000;

describe.concurrent("across processes", () => {
  test("an idle worker picks up a task at once, and its result is known at once", async ({ stage }) => {
    const worker = await stage.startWorker({});
    const dibs = await stage.open();
    const queue = actsOf(dibs);
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const started = performance.now();
      const task = await queue.add({ do: "echo", value: round });
      expect(await task.result({ timeout: "20s" })).toBe(round);
      times.push(performance.now() - started);
    }
    expect(worker.all("start")).toHaveLength(ROUNDS);
    // Of each round: by chance one may coincide with the poll, fifteen do not.
    expect(Math.max(...times)).toBeLessThan(SOON_MS);
  });

  test("a result is awaited from a third process", async ({ stage }) => {
    const worker = await stage.startWorker({});
    const [producer, onlooker] = [await stage.open(), await stage.open()];
    const task = await actsOf(producer).add({ do: "pass", gate: "go" });
    const result = onlooker.task(task.id).result({ timeout: "20s" });
    await worker.hears("start");
    const told = performance.now();
    worker.tell({ open: "go" });
    expect(await result).toBe("go");
    expect(performance.now() - told).toBeLessThan(SOON_MS);
  });

  test("a delayed task is started when it is due, not at the next poll", async ({ stage }) => {
    const worker = await stage.startWorker({});
    const dibs = await stage.open();
    const started = performance.now();
    const task = await actsOf(dibs).add({ do: "echo" }, { delay: "300ms" });
    await worker.hears("start", (saying) => saying.id === task.id);
    const waited = performance.now() - started;
    expect(waited).toBeGreaterThanOrEqual(300);
    expect(waited).toBeLessThan(300 + SOON_MS);
  });

  test("cancelling a running task aborts its signal soon, and it ends cancelled", async ({ stage }) => {
    // A beat every ten seconds: whoever waited for one would be late.
    const worker = await stage.startWorker({ policy: { lease: "30s" }, work: { concurrency: ROUNDS } });
    const dibs = await stage.open();
    const queue = actsOf(dibs);
    for (let round = 0; round < 5; round++) {
      const task = await queue.add({ do: "heed" });
      await worker.hears("start", (saying) => saying.id === task.id);
      const asked = performance.now();
      expect(await task.cancel()).toBe("claimed");
      const abort = await worker.hears("abort", (saying) => saying.id === task.id);
      expect(performance.now() - asked).toBeLessThan(SOON_MS);
      expect(abort).toMatchObject({ code: "TASK_CANCELLED" });
      await expect(task.result({ timeout: "20s" })).rejects.toMatchObject({ code: "TASK_CANCELLED" });
      expect((await task.history()).map((row) => row.outcome)).toEqual(["cancelled"]);
    }
  });

  test("ten idle workers wake their process less than five times a second, and use no CPU", async ({
    stage,
    skip,
  }) => {
    skip(process.platform !== "linux", "wake-ups are counted from /proc");
    const { pid } = await stage.startWorker({ workers: 10 });
    // A second process with workers of its own: each one's signs of life must not wake the other much.
    const other = await stage.startWorker({ workers: 10 });
    // What starting left behind: compilation, garbage collection, the first looks at the store.
    await pause(1_000);
    const [before, otherBefore] = [usageOf(pid), usageOf(other.pid)];
    await pause(IDLE_MS);
    expectIdle(before, usageOf(pid));
    expectIdle(otherBefore, usageOf(other.pid));
  });
});
