import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { actsOf, KEPT_LEASE_MS, test } from "./harness/stage.ts";

describe.concurrent("a handler that blocks the event loop", () => {
  test("a handler that blocks the event loop for longer than its lease keeps its task: a thread sends the heartbeats", async ({
    stage,
  }) => {
    const policy = { lease: KEPT_LEASE_MS } as const;
    // The second task is prefetched, and waits for as long.
    const blocked = await stage.startWorker({
      policy,
      work: { name: "blocked", concurrency: 1, prefetch: 1 },
    });
    const dibs = await stage.open();
    const tasks = await actsOf(dibs).addMany([
      { data: { do: "block", ms: 1.5 * KEPT_LEASE_MS } },
      { data: { do: "block", ms: 1.5 * KEPT_LEASE_MS } },
    ]);
    await blocked.hears("start");
    const idle = await stage.startWorker({ work: { name: "idle" } });

    await Promise.all(tasks.map((task) => task.result({ timeout: "20s" })));
    for (const task of tasks) {
      expect(await task.history()).toMatchObject([{ attempt: 1, outcome: "done" }]);
    }
    expect(blocked.all("start")).toHaveLength(tasks.length);
    expect(idle.all("start")).toEqual([]);
    expect(blocked.all("abort")).toEqual([]);
  });

  test("a handler that blocks the event loop past its timeout loses its task", async ({ stage }) => {
    const policy = { lease: KEPT_LEASE_MS, timeout: 500, backoff: { type: "fixed", delay: 0 } } as const;
    const blocked = await stage.startWorker({ policy, work: { name: "blocked" } });
    const dibs = await stage.open();
    const freed = join(stage.folder, "freed");
    const task = await actsOf(dibs).add({ do: "blockUntil", file: freed });
    await blocked.hears("start");
    const other = await stage.startWorker({ work: { name: "other" } });
    await task.result({ timeout: "20s" });

    // The blocked worker could not report it; the store's thread did.
    expect(blocked.all("end")).toEqual([]);
    expect(await task.history()).toMatchObject([
      { attempt: 1, outcome: "timeout", worker: blocked.all("ready")[0]!.workers![0] },
      { attempt: 2, outcome: "done", worker: other.all("ready")[0]!.workers![0] },
    ]);
    writeFileSync(freed, "");
    // It learns of it when it stops blocking, and its answer then changes nothing.
    expect(await blocked.hears("abort")).toMatchObject({ id: task.id, code: "TIMEOUT" });
    await blocked.hears("end");
    expect(await task.history()).toHaveLength(2);
  });
});
