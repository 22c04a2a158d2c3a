import { describe, expect } from "vitest";
import { actsOf, pause, test, until } from "./harness/stage.ts";
import { expectIdle, usageOf } from "./harness/usage.ts";

/** No poll and no heartbeat helps here: a lost wake-up makes the test hang. */
const WOKEN_ONLY = { poll: "1h" } as const;
const RARE_BEATS = { lease: "1h" } as const;
const ROUNDS = 15;
/** A heartbeat is due every ten seconds, so that each process sends one meanwhile. */
const IDLE_MS = 10_000;

describe.concurrent("wake-ups across processes", () => {
  test("an add wakes an idle worker, and the end of the task wakes the caller that waits for its result", async ({
    stage,
  }) => {
    const worker = await stage.startWorker({ ...WOKEN_ONLY, policy: RARE_BEATS });
    const dibs = await stage.open(WOKEN_ONLY);
    const queue = actsOf(dibs);
    for (let round = 0; round < ROUNDS; round++) {
      const task = await queue.add({ do: "echo", value: round });
      expect(await task.result({ timeout: "20s" })).toBe(round);
    }
    expect(worker.all("start")).toHaveLength(ROUNDS);
  });

  test("a third process can wait for a result", async ({ stage }) => {
    const worker = await stage.startWorker({ ...WOKEN_ONLY, policy: RARE_BEATS });
    const [producer, onlooker] = [await stage.open(WOKEN_ONLY), await stage.open(WOKEN_ONLY)];
    const task = await actsOf(producer).add({ do: "pass", gate: "go" });
    const result = onlooker.task(task.id).result({ timeout: "20s" });
    await worker.hears("start");
    worker.tell({ open: "go" });
    expect(await result).toBe("go");
  });

  test("a delayed task starts when it is due, not at the next poll", async ({ stage }) => {
    const worker = await stage.startWorker({ ...WOKEN_ONLY, policy: RARE_BEATS });
    const dibs = await stage.open(WOKEN_ONLY);
    const started = performance.now();
    const task = await actsOf(dibs).add({ do: "echo" }, { delay: "300ms" });
    await worker.hears("start", (saying) => saying.id === task.id);
    expect(performance.now() - started).toBeGreaterThanOrEqual(300);
  });

  test("cancelling a running task in another process aborts its signal, and it ends cancelled", async ({
    stage,
  }) => {
    const worker = await stage.startWorker({
      ...WOKEN_ONLY,
      policy: RARE_BEATS,
      work: { concurrency: ROUNDS },
    });
    const dibs = await stage.open(WOKEN_ONLY);
    const queue = actsOf(dibs);
    for (let round = 0; round < 5; round++) {
      const task = await queue.add({ do: "heed" });
      await worker.hears("start", (saying) => saying.id === task.id);
      expect(await task.cancel()).toBe("claimed");
      const abort = await worker.hears("abort", (saying) => saying.id === task.id);
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
    // A second process with its own workers: the heartbeats of one must hardly wake the other.
    const other = await stage.startWorker({ workers: 10 });
    await Promise.all([hasStarted(pid), hasStarted(other.pid)]);
    const [before, otherBefore] = [usageOf(pid), usageOf(other.pid)];
    await pause(IDLE_MS);
    expectIdle(before, usageOf(pid));
    expectIdle(otherBefore, usageOf(other.pid));
  });
});

/**
 * Until a process has used no CPU for a second: then it is done with what starting causes, which is compilation, garbage
 * collection and the first reads of the store. On a busy machine, that takes several seconds.
 */
async function hasStarted(pid: number): Promise<void> {
  let last = usageOf(pid);
  await until(`process ${pid} has started`, () => {
    const now = usageOf(pid);
    if (now.cpuMs !== last.cpuMs) last = now;
    return now.at - last.at >= 1_000;
  });
}
