import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { actsOf, test } from "../harness/stage.ts";
import { ServedStage } from "./served-stage.ts";

/** A connection counts as dead after three silent intervals: longer than a busy machine delays a process. */
const BEAT_MS = 1_000;

describe.concurrent("a frozen server", () => {
  test("clients notice a frozen server, and continue with their claims when it thaws", async ({ stage }) => {
    const served = await ServedStage.start(stage, { beat: BEAT_MS });
    const worker = await stage.startWorker({ policy: { lease: "30s" }, work: { name: "w" } });
    const dibs = await stage.open();
    const queue = actsOf(dibs);
    const task = await queue.add({ do: "pass", gate: "thawed" });
    await worker.hears("start");

    served.program.signal("SIGSTOP");
    const adding = queue.add({ do: "echo", value: "added while it was frozen" });
    const warned = await worker.hears("warned", ({ message }) => String(message).includes("silent"));
    expect(warned["message"]).toContain("reconnecting");
    served.program.signal("SIGCONT");

    worker.tell({ open: "thawed" });
    expect(await task.result({ timeout: "20s" })).toBe("thawed");
    expect(await (await adding).result({ timeout: "20s" })).toBe("added while it was frozen");
    // The server was silent, not the worker: no claim was lost.
    expect(await task.history()).toMatchObject([{ attempt: 1, outcome: "done" }]);
    expect(worker.all("abort")).toEqual([]);
  });

  test("a server that was frozen does not blame its idle clients for the silence", async ({ stage }) => {
    const served = await ServedStage.start(stage, { beat: BEAT_MS, resume: BEAT_MS });
    const worker = await stage.startWorker({ policy: { lease: "30s" }, work: { name: "w" } });
    const dibs = await stage.open();
    const task = await actsOf(dibs).add({ do: "pass", gate: "go" });
    await worker.hears("start");
    // Frozen for less time than clients tolerate, and longer than the server's intervals would allow.
    served.program.signal("SIGSTOP");
    await new Promise((resolve) => setTimeout(resolve, 1.75 * BEAT_MS));
    served.program.signal("SIGCONT");
    worker.tell({ open: "go" });
    expect(await task.result({ timeout: "20s" })).toBe("go");
    expect(await task.history()).toHaveLength(1);
  });
});

describe.concurrent("a client of a server", () => {
  test("a killed client loses its tasks when it can no longer resume, long before its lease ends", async ({
    stage,
  }) => {
    await ServedStage.start(stage, { resume: 300 });
    const victim = await stage.startWorker({
      policy: { lease: "10m", elsewhere: 0 },
      work: { name: "victim" },
    });
    const dibs = await stage.open();
    const task = await actsOf(dibs).add({ do: "hang", attempts: 1 });
    await victim.hears("start");
    await victim.kill();
    await stage.startWorker({ work: { name: "heir" } });
    expect(await task.result({ timeout: "20s" })).toBe("done");
    expect(await task.history()).toMatchObject([{ outcome: "lost" }, { outcome: "done", attempt: 2 }]);
  });

  test("a frozen client loses its tasks, learns of it, and continues with new ones", async ({ stage }) => {
    await ServedStage.start(stage, { resume: BEAT_MS, beat: BEAT_MS });
    const frozen = await stage.startWorker({
      policy: { lease: "10m", elsewhere: 0 },
      work: { name: "frozen" },
    });
    const dibs = await stage.open();
    const queue = actsOf(dibs);
    const file = join(stage.folder, "thawed");
    const task = await queue.add({ do: "late", file, verb: "ack" });
    await frozen.hears("waiting");
    frozen.signal("SIGSTOP");
    const heir = await stage.startWorker({ work: { name: "heir" } });
    await heir.hears("start");
    writeFileSync(file, "");
    frozen.signal("SIGCONT");
    expect(await frozen.hears("late")).toMatchObject({ code: "CLAIM_LOST" });
    expect(await frozen.hears("abort")).toMatchObject({ code: "CLAIM_LOST", id: task.id });
    heir.tell({ open: "thawed" });
    expect(await task.result({ timeout: "20s" })).toBe("heir");
    await heir.stop();
    expect(await (await queue.add({ do: "fail", on: [] })).result({ timeout: "20s" })).toBe("frozen");
  });
});
