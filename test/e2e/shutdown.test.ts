import { describe, expect } from "vitest";
import { actsOf, test } from "./harness/stage.ts";

// With this lease no task may return because a lease ended.
const policy = { lease: "10m", maxAttempts: 2 } as const;
const CLEAN = { code: 0, signal: null };

describe.concurrent("a worker process that is asked to stop", () => {
  test("a stopping process releases running and prefetched tasks, without counting an attempt", async ({
    stage,
  }) => {
    const dibs = await stage.open();
    const queue = actsOf(dibs, policy);
    const [working, ahead] = [3, 10];
    const tasks = await queue.addMany(
      Array.from({ length: working + ahead }, () => ({ data: { do: "heed" as const } })),
    );
    const worker = await stage.startWorker({
      work: { concurrency: working, prefetch: ahead },
      stopTimeout: 1_000,
    });
    await worker.hearsTimes("start", working);
    expect((await queue.stats()).depth.claimed).toBe(working + ahead);

    expect(await worker.stop()).toEqual(CLEAN);
    expect(worker.all("start")).toHaveLength(working);
    expect((await queue.stats()).depth).toMatchObject({ ready: working + ahead, claimed: 0, scheduled: 0 });
    for (const [index, task] of tasks.entries()) {
      expect(await task.info()).toMatchObject({ state: "ready", attempt: 1 });
      // Tasks that had started have a ledger row; the others look as if never claimed.
      expect((await task.history()).map((row) => row.outcome)).toEqual(index < working ? ["released"] : []);
    }
    expect(await dibs.workers()).toEqual([]);

    // In their old order.
    const claims = await queue.claim({ max: 100, lease: "1m" });
    expect(claims.map((claim) => claim.id)).toEqual(tasks.map((task) => task.id));
    expect(claims.map((claim) => claim.attempt)).toEqual(tasks.map(() => 1));
  });

  test("a stopping process lets handlers finish that can", async ({ stage }) => {
    const dibs = await stage.open();
    const queue = actsOf(dibs, policy);
    const worker = await stage.startWorker({ policy, work: { concurrency: 2 }, stopTimeout: 20_000 });
    const tasks = await queue.addMany(
      ["one", "two", "three"].map((gate) => ({ data: { do: "pass" as const, gate } })),
    );
    await worker.hearsTimes("start", 2);
    worker.signal("SIGTERM");
    await worker.hears("stopping");
    worker.tell({ open: "one" });
    expect(await tasks[0]!.result({ timeout: "20s" })).toBe("one");
    expect(worker.isRunning).toBe(true);
    worker.tell({ open: "two" });
    worker.tell({ open: "three" });
    expect(await worker.exited).toEqual(CLEAN);
    expect(await tasks[1]!.result({ timeout: "1s" })).toBe("two");
    // It takes no new task while it drains.
    expect(await tasks[2]!.info()).toMatchObject({ state: "ready", attempt: 1 });
    expect(worker.all("start")).toHaveLength(2);
    expect(worker.all("abort")).toEqual([]);
  });

  test("a stopping process leaves a handler behind that ignores its signal, and the task returns", async ({
    stage,
  }) => {
    const dibs = await stage.open();
    const queue = actsOf(dibs, policy);
    const worker = await stage.startWorker({ policy, stopTimeout: 300 });
    const task = await queue.add({ do: "hang", attempts: 1 });
    await worker.hears("start");
    expect(await worker.stop()).toEqual(CLEAN);
    expect(worker.all("abort").length).toBeGreaterThan(0);
    expect(worker.all("end")).toEqual([]);
    expect(await task.info()).toMatchObject({ state: "ready", attempt: 1 });
    expect((await task.history()).map((row) => row.outcome)).toEqual(["released"]);
  });
});
