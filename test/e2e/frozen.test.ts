import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { freeze } from "./harness/freeze.ts";
import { actsOf, KEPT_LEASE_MS, test } from "./harness/stage.ts";

describe.concurrent("a worker that is frozen past its lease", () => {
  test("a worker that was frozen past its lease can settle nothing, and continues with new tasks", async ({
    stage,
  }) => {
    const policy = { lease: KEPT_LEASE_MS, elsewhere: "10m" } as const;
    const verbs = ["ack", "nack", "reject", "release", "extend", "progress"] as const;
    const frozen = await stage.startWorker({ policy, work: { name: "frozen", concurrency: verbs.length } });
    const dibs = await stage.open();
    const queue = actsOf(dibs);
    const file = join(stage.folder, "thawed");
    const tasks = await queue.addMany(verbs.map((verb) => ({ data: { do: "late" as const, file, verb } })));
    await frozen.hearsTimes("waiting", verbs.length);

    await freeze(frozen, stage.file);
    const other = await stage.startWorker({ work: { name: "other", concurrency: verbs.length } });
    await other.hearsTimes("start", verbs.length);

    // Now the other worker holds all of them: only the fences distinguish the claims.
    writeFileSync(file, "");
    frozen.signal("SIGCONT");
    const late = await frozen.hearsTimes("late", verbs.length);
    for (const verb of verbs) {
      expect(late.find((saying) => saying["verb"] === verb)).toMatchObject({ code: "CLAIM_LOST" });
    }
    const aborts = await frozen.hearsTimes("abort", verbs.length);
    expect(aborts.map((saying) => saying.code)).toEqual(verbs.map(() => "CLAIM_LOST"));
    for (const task of tasks) {
      expect(await task.info()).toMatchObject({ state: "claimed", attempt: 2, progress: null });
    }
    other.tell({ open: "thawed" });
    const results = await Promise.all(tasks.map((task) => task.result({ timeout: "20s" })));
    expect(results).toEqual(verbs.map(() => "other"));

    // None of these calls had an effect.
    for (const task of tasks) {
      const [lost, done, ...more] = await task.history();
      expect(lost).toMatchObject({ outcome: "lost", worker: frozen.all("ready")[0]!.workers![0] });
      expect(done).toMatchObject({ outcome: "done", worker: other.all("ready")[0]!.workers![0] });
      expect(more).toEqual([]);
      expect(await task.info()).toMatchObject({ state: "done", result: "other", progress: null });
    }
    expect((await queue.stats()).depth).toMatchObject({
      done: verbs.length,
      dead: 0,
      ready: 0,
      scheduled: 0,
    });

    // It has joined again: it is the only worker left.
    expect(await other.stop()).toEqual({ code: 0, signal: null });
    const again = await Promise.all(Array.from({ length: 10 }, () => queue.add({ do: "fail", on: [] })));
    expect(await Promise.all(again.map((task) => task.result({ timeout: "20s" })))).toEqual(
      again.map(() => "frozen"),
    );
  });
});
