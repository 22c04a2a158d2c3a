import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, expectTypeOf, it, onTestFinished } from "vitest";
import { z } from "zod";
import { type Dibs, each, open } from "../../src/index.ts";
import { openStore, STORES } from "../stores.ts";

const quick = { backoff: { type: "fixed", delay: 0, jitter: 0 } } as const;

function defineReport(dibs: Dibs) {
  return dibs
    .pipeline<{ text: string }>("report")
    .stage("extract", (task) => task.data.text.split(" "), { concurrency: 8 })
    .stage("analyse", (task) => task.data.map((word) => word.length))
    .stage("review", (task) => ({ longest: Math.max(...task.data) }));
}

describe.each(STORES)("a pipeline on %s", (store) => {
  it("a run goes through all stages, and shows how far it is", async () => {
    const dibs = await openStore(store);
    const report = defineReport(dibs);
    const worker = report.work();
    await worker.ready;
    expect(worker.stages).toEqual(["extract", "analyse", "review"]);
    const run = await report.add({ text: "no run is lost" }, { headers: { trace: "x" } });
    const result = await run.result({ timeout: "20s" });
    expectTypeOf(result).toEqualTypeOf<{ longest: number }>();
    expect(result).toEqual({ longest: 4 });
    const status = await run.status();
    expect(status).toMatchObject({ id: run.id, pipeline: "report", state: "done" });
    expect(status.stages.map(({ name, state }) => [name, state])).toEqual([
      ["extract", "done"],
      ["analyse", "done"],
      ["review", "done"],
    ]);
    for (const { startedAt, endedAt, parts } of status.stages) {
      expect(startedAt!.getTime()).toBeLessThanOrEqual(endedAt!.getTime());
      expect(parts).toHaveLength(1);
    }
    expect(await dibs.run(run.id).result()).toEqual({ longest: 4 });
    expect((await dibs.task(status.stages[1]!.parts[0]!.id).info()).headers).toEqual({ trace: "x" });
  });

  it("a pipeline fans out, joins in order, and does both again", async () => {
    const dibs = await openStore(store);
    const places: unknown[] = [];
    const sum = dibs
      .pipeline<number>("sum")
      .stage("split", (task) => each(Array.from({ length: task.data }, (_, n) => n)))
      .stage(
        "square",
        async (task) => {
          expectTypeOf(task.data).toBeNumber();
          // The first parts are the last to arrive.
          await new Promise((resolve) => setTimeout(resolve, 20 - task.data));
          return task.data ** 2;
        },
        { concurrency: 10 },
      )
      .join("add", (task) => {
        expectTypeOf(task.data).toEqualTypeOf<number[]>();
        places.push(task.data, task.run?.part);
        return task.data.reduce((all, one) => all + one, 0);
      })
      .stage("again", (task) => each([task.data, 1]))
      .stage("name", (task) => `is ${task.data}`);
    sum.work();
    const run = await sum.add(5);
    const result = await run.result({ timeout: "20s" });
    expectTypeOf(result).toEqualTypeOf<string[]>();
    expect(result).toEqual(["is 30", "is 1"]);
    expect(places).toEqual([[0, 1, 4, 9, 16], []]);
    const { stages } = await run.status();
    expect(stages[1]!.parts.map(({ part }) => part)).toEqual([[0], [1], [2], [3], [4]]);
    expect(await (await sum.add(0)).result({ timeout: "20s" })).toEqual(["is 0", "is 1"]);
  });

  it("a run stops when a stage dies, and continues from there after a redrive", async () => {
    const dibs = await openStore(store);
    let isBroken = true;
    const extracted: string[] = [];
    const report = dibs
      .pipeline<string>("report")
      .stage("extract", (task) => {
        extracted.push(task.data);
        return task.data.toUpperCase();
      })
      .stage(
        "analyse",
        (task) => {
          if (isBroken) throw new Error("no model answers");
          return `${task.data}!`;
        },
        { ...quick, maxAttempts: 2 },
      );
    report.work();
    const run = await report.add("hello");
    await expect(run.result({ timeout: "20s" })).rejects.toMatchObject({
      code: "TASK_DEAD",
      message: expect.stringMatching(/^Run .* is dead: Error: no model answers/),
    });
    expect((await run.status()).stages.map(({ state }) => state)).toEqual(["done", "dead"]);
    const { tasks } = await report.queue("analyse").dead.list();
    expect(tasks[0]!.run).toMatchObject({ id: run.id, stage: "analyse" });
    isBroken = false;
    expect(await report.queue("analyse").dead.redrive()).toEqual({ count: 1 });
    expect(await run.result({ timeout: "20s" })).toBe("HELLO!");
    expect(extracted).toEqual(["hello"]);
  });

  it("cancelling a run cancels everything in progress", async () => {
    const dibs = await openStore(store);
    const started = Promise.withResolvers<void>();
    const aborted: string[] = [];
    const slow = dibs
      .pipeline("slow")
      .stage("split", () => each([1, 2, 3]))
      .stage(
        "wait",
        (task) => {
          started.resolve();
          return new Promise((_, reject) => {
            task.signal.addEventListener("abort", () => {
              aborted.push(task.id);
              reject(new Error("stopped"));
            });
          });
        },
        { concurrency: 2 },
      )
      .join("end", () => "never");
    slow.work();
    const run = await slow.add(null);
    await started.promise;
    expect(await run.cancel()).toBe("cancelled");
    await expect(run.result()).rejects.toMatchObject({ code: "TASK_CANCELLED" });
    await expect
      .poll(async () => (await run.status()).stages[1]!.state, { timeout: 20_000 })
      .toBe("cancelled");
    expect(aborted.length).toBeGreaterThan(0);
    expect((await run.status()).stages[2]!.state).toBe("pending");
  });

  it("a stage with a verifier continues when its result is accepted", async () => {
    const dibs = await openStore(store);
    const report = dibs
      .pipeline<string>("report")
      .stage("draft", (task) => `${task.data}${task.feedback ?? ""}`, quick)
      .stage("print", (task) => task.data.length);
    report.queue("draft").verify((_, result) => result === "ab" || { refuse: "b" });
    report.work();
    const run = await report.add("a");
    expect(await run.result({ timeout: "20s" })).toBe(2);
    expect((await run.status()).stages.map(({ parts }) => parts.length)).toEqual([1, 1]);
  });

  it("a run that an ack adds begins with the ack, or not at all", async () => {
    const dibs = await openStore(store);
    const report = defineReport(dibs);
    report.work();
    const orders = dibs.queue<string>("orders", { maxAttempts: 1 });
    orders.work(async (task) => {
      await task.add(report, { text: task.data });
      if (task.data === "bad") throw new Error("no");
    });
    const good = await orders.add("good");
    const bad = await orders.add("bad");
    await good.result({ timeout: "20s" });
    await expect(bad.result({ timeout: "20s" })).rejects.toThrow();
    await expect
      .poll(async () => (await report.queue("review").stats()).depth.done, { timeout: 20_000 })
      .toBe(1);
    expect((await report.queue("extract").stats()).depth.done).toBe(1);
  });

  it("invalid pipelines and results are refused with a clear error", async () => {
    const dibs = await openStore(store);
    expect(() => dibs.pipeline("p").join("first", () => 1)).toThrow(/first stage .* cannot join/);
    expect(() => dibs.pipeline("p").stage("a", 7 as never)).toThrow(/handler function second/);
    const twice = dibs.pipeline("p").stage("a", () => 1);
    expect(() => twice.stage("a", () => 1)).toThrow(/two stages called "a"/);
    expect(() => twice.work({ stages: ["b"] as never })).toThrow(/no stage "b" in this process; it has "a"/);
    expect(() => dibs.pipeline("p").work()).toThrow(/no stages in this process/);
    await expect(dibs.pipeline("unknown").add(1)).rejects.toThrow(/Pipeline "unknown" has no definition/);
    await twice.add(1);
    expect(() => twice.stage("b", () => 1)).toThrow(/in use/);
    expect(() => each("ab" as never)).toThrow(/each\(\) takes an array/);
    await expect(twice.addMany([{ data: 1 }, null as never])).rejects.toThrow(/Run 1 of addMany\(\).*null/);
    const checked = dibs
      .pipeline<number>("checked")
      .stage("split", () => each(["x"]), { result: z.array(z.number()), maxAttempts: 1 })
      .stage("next", () => 1);
    checked.work();
    await expect((await checked.add(1)).result({ timeout: "20s" })).rejects.toThrow(/number/);
    const other = dibs.queue("other", { maxAttempts: 1 });
    other.work(() => each([1]));
    await expect((await other.add(1)).result({ timeout: "20s" })).rejects.toThrow(
      /does not belong to a run of a pipeline/,
    );
  });
});

describe("a pipeline in several processes", () => {
  async function openFile(folder: string): Promise<Dibs> {
    return open(join(folder, "work.db"));
  }

  function folderForTest(): string {
    const folder = mkdtempSync(join(tmpdir(), "dibs-test-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    return folder;
  }

  it("each process may work on some of the stages, and one may only add runs", async () => {
    const folder = folderForTest();
    await using first = await openFile(folder);
    await using second = await openFile(folder);
    await using producer = await openFile(folder);
    await defineReport(first).work({ stages: ["extract", "review"] }).ready;
    const other = defineReport(second).work({ stages: ["analyse"] });
    expect(other.stages).toEqual(["analyse"]);
    const run = await producer.pipeline<{ text: string }>("report").add({ text: "one by one" });
    expect(await run.result({ timeout: "20s" })).toEqual({ longest: 3 });
  });

  it("runs continue after all processes have ended in the middle of them", async () => {
    const folder = folderForTest();
    const begun = await openFile(folder);
    const report = defineReport(begun);
    const worker = report.work({ stages: ["extract"] });
    const { id } = await report.add({ text: "to be continued" });
    await expect
      .poll(async () => (await report.run(id).status()).stages[0]!.state, { timeout: 20_000 })
      .toBe("done");
    await worker.stop();
    await begun.close();
    await using later = await openFile(folder);
    expect((await later.run(id).status()).stages.map(({ state }) => state)).toEqual([
      "done",
      "running",
      "pending",
    ]);
    defineReport(later).work();
    expect(await later.run(id).result({ timeout: "20s" })).toEqual({ longest: 9 });
  });

  it("runs end on the stages they began with, and a process without them logs a warning", async () => {
    const folder = folderForTest();
    const warnings: string[] = [];
    const logger = { info() {}, debug() {}, error() {}, warn: (text: string) => void warnings.push(text) };
    await using old = await openFile(folder);
    await using fresh = await open(join(folder, "work.db"), { logger });
    const before = old
      .pipeline<number>("sum")
      .stage("one", (task) => task.data + 1)
      .stage("two", (task) => task.data * 10)
      .stage("three", (task) => `old ${task.data}`);
    const first = await before.add(1);
    const after = fresh
      .pipeline<number>("sum")
      .stage("one", (task) => task.data + 1)
      .stage("three", (task) => `new ${task.data}`);
    const second = await after.add(1);
    after.work();
    expect(await second.result({ timeout: "20s" })).toBe("new 2");
    expect(warnings.join()).toMatch(/"sum" was defined before with "two", which this process does not have/);
    // No worker has the stage that only the old definition contains.
    await expect
      .poll(async () => (await first.status()).stages.map(({ state }) => state), { timeout: 20_000 })
      .toEqual(["done", "running", "pending"]);
    before.work({ stages: ["two"] });
    expect(await first.result({ timeout: "20s" })).toBe("new 20");
  });

  it("a stage that joins only in a newer definition fails for older runs", async () => {
    const folder = folderForTest();
    await using dibs = await openFile(folder);
    const run = await dibs
      .pipeline<number>("sum")
      .stage("one", (task) => task.data)
      .stage("two", (task) => task.data)
      .add(1);
    dibs
      .pipeline<number>("sum")
      .stage("one", (task) => task.data)
      .join("two", (task) => task.data, { maxAttempts: 1 })
      .work();
    await expect(run.result({ timeout: "20s" })).rejects.toThrow(/joins parts in this worker's definition/);
  });
});
