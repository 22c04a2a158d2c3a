import { describe, expect } from "vitest";
import { actsOf, KEPT_LEASE_MS, test } from "./harness/stage.ts";

describe.concurrent("tasks that were fetched ahead", () => {
  test("prefetched tasks stay claimed while they wait, for more than two leases", async ({ stage }) => {
    const lease = KEPT_LEASE_MS;
    const [concurrency, prefetch] = [4, 20];
    const dibs = await stage.open();
    const tasks = await actsOf(dibs, { lease }).addMany(
      Array.from({ length: concurrency + prefetch }, () => ({
        data: { do: "sleep" as const, ms: lease * 0.45 },
      })),
    );
    const slow = await stage.startWorker({ work: { name: "slow", concurrency, prefetch } });
    await slow.hearsTimes("start", concurrency);
    // This worker would take any task that became ready.
    const idle = await stage.startWorker({ work: { name: "idle", concurrency: 10 } });

    await Promise.all(tasks.map((task) => task.result({ timeout: "25s" })));
    expect(idle.all("start")).toEqual([]);
    expect(slow.all("start")).toHaveLength(tasks.length);
    expect(slow.all("abort")).toEqual([]);
    for (const task of tasks) expect(await task.history()).toMatchObject([{ attempt: 1, outcome: "done" }]);
  });
});
