import { describe, expect } from "vitest";
import { actsOf, KEPT_LEASE_MS, test } from "./harness/stage.ts";

describe.concurrent("a handler that never ends", () => {
  test("a handler that never ends fails at its queue's timeout, its slot is free, and the task is retried", async ({
    stage,
  }) => {
    const policy = {
      lease: KEPT_LEASE_MS,
      timeout: "700ms",
      maxAttempts: 3,
      backoff: { type: "fixed", delay: 0 },
    } as const;
    const worker = await stage.startWorker({ policy, work: { concurrency: 1 } });
    const dibs = await stage.open();
    const queue = actsOf(dibs);
    const hanging = await queue.add({ do: "hang", attempts: 2 });
    await worker.hears("start");
    const next = await queue.add({ do: "echo", value: "next" });

    // There is one slot: that these tasks end shows that it was freed, although the first two handlers never ended.
    expect(await next.result({ timeout: "20s" })).toBe("next");
    expect(await hanging.result({ timeout: "20s" })).toBe("done");
    expect(worker.all("abort")).toMatchObject([
      { id: hanging.id, code: "TIMEOUT" },
      { id: hanging.id, code: "TIMEOUT" },
    ]);
    const ledger = await hanging.history();
    expect(ledger.map((row) => row.outcome)).toEqual(["timeout", "timeout", "done"]);
    for (const row of ledger.slice(0, 2)) {
      const ms = row.endedAt.getTime() - row.startedAt.getTime();
      // A little less than configured: the worker's timer and the store's clock are not read at the same moment.
      expect(ms).toBeGreaterThanOrEqual(690);
    }
    expect(await hanging.info()).toMatchObject({ attempt: 3, state: "done" });
  });

  test("a handler that never ends makes its task dead on the last attempt", async ({ stage }) => {
    const policy = { lease: KEPT_LEASE_MS, timeout: "300ms", maxAttempts: 1 } as const;
    await stage.startWorker({ policy });
    const dibs = await stage.open();
    const queue = actsOf(dibs);
    const task = await queue.add({ do: "hang" });
    await expect(task.result({ timeout: "20s" })).rejects.toMatchObject({ code: "TASK_DEAD" });
    expect(await task.info()).toMatchObject({ state: "dead", error: { name: "TimeoutError" } });
    expect((await queue.dead.list({ error: "timeout" })).tasks.map(({ id }) => id)).toEqual([task.id]);
  });
});
