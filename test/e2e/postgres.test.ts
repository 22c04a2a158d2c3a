import { describe, expect } from "vitest";
import { freshDatabase } from "../postgres/shared.ts";
import { actsOf, KEPT_LEASE_MS, test } from "./harness/stage.ts";

describe("processes on PostgreSQL", () => {
  test("a handler that blocks the event loop for longer than its lease keeps its task", async ({ stage }) => {
    stage.file = await freshDatabase((undo) => stage.onEnd(undo));
    const blocked = await stage.startWorker({
      policy: { lease: KEPT_LEASE_MS },
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
    expect(idle.all("start")).toEqual([]);
  });

  test("a worker that is killed loses its task to another, after its lease", async ({ stage }) => {
    stage.file = await freshDatabase((undo) => stage.onEnd(undo));
    const victim = await stage.startWorker({ policy: { lease: KEPT_LEASE_MS }, work: { name: "victim" } });
    const dibs = await stage.open();
    const task = await actsOf(dibs).add({ do: "hang", attempts: 1 });
    await victim.hears("start");
    await victim.kill();
    const other = await stage.startWorker({ work: { name: "other" } });
    await task.result({ timeout: "20s" });
    expect(other.all("start")).toHaveLength(1);
    expect(await task.history()).toMatchObject([{ outcome: "lost" }, { outcome: "done" }]);
  });
});
