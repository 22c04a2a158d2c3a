import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import { type RunStart, type RunState, type Stage, stageQueue } from "../../../src/core/run/run.ts";
import type { AddedTask, ClaimedTask, NewTask, TaskEnd } from "../../../src/core/task/task.ts";
import { verificationQueue } from "../../../src/core/handler/verification.ts";
import {
  ack,
  claim,
  claimOne,
  DAY,
  depths,
  failure,
  HOUR,
  HOUSEKEEPING,
  idsOf,
  isPending,
  joinWorker,
  nack,
  namesOf,
  passLong,
  refused,
  reject,
  SECOND,
  type Start,
  stateOf,
} from "./kit.ts";

const PIPELINE = "report";

/** A stage whose name ends with a plus joins. */
function stagesOf(...names: string[]): Stage[] {
  return names.map((name) => ({ name: name.replace("+", ""), joins: name.endsWith("+") }));
}

function startOf(...names: string[]): RunStart {
  return { pipeline: PIPELINE, stages: stagesOf(...names) };
}

const queueOf = (stage: string): string => stageQueue(PIPELINE, stage);

async function begin(port: Port, run: RunStart, fields: Partial<NewTask> = {}): Promise<AddedTask> {
  const [added] = await port.add([{ queue: queueOf(run.stages[0]!.name), data: '"in"', run, ...fields }]);
  return added!;
}

async function claimAt(port: Port, stage: string): Promise<ClaimedTask> {
  return claimOne(port, { queues: [queueOf(stage)] });
}

async function claimAll(port: Port, stage: string): Promise<ClaimedTask[]> {
  return claim(port, { queues: [queueOf(stage)], max: 1_000 });
}

async function fanOut(port: Port, held: ClaimedTask, items: unknown[]): Promise<void> {
  const { state } = await port.settle(held, { kind: "ack", result: JSON.stringify(items), each: true });
  expect(state).toBe("done");
}

async function endOf(port: Port, id: string): Promise<TaskEnd> {
  return port.end(id, { of: "runs" });
}

async function stateOfRun(port: Port, id: string): Promise<string> {
  return (await port.run(id)).run.state;
}

async function partsOf(port: Port, id: string): Promise<string[]> {
  const { parts } = await port.run(id);
  return parts.map(
    ({ stage, part, state }) => `${stage}${part.length > 0 ? ` ${part.join(".")}` : ""} ${state}`,
  );
}

export function runs(start: Start): void {
  describe("runs", () => {
    test("the success of each stage adds the task of the next one, with its result as data", async () => {
      const { port, startedAt } = await start();
      const { id } = await begin(port, startOf("extract", "analyse", "review"));
      const first = await claimAt(port, "extract");
      expect(first).toMatchObject({
        id,
        data: '"in"',
        run: { id, pipeline: PIPELINE, stage: "extract", part: [], joins: false },
      });
      expect(await ack(port, first, '{"n":1}')).toBe("done");
      const second = await claimAt(port, "analyse");
      expect(second).toMatchObject({ data: '{"n":1}', run: { id, stage: "analyse", part: [] } });
      expect((await port.task(second.id)).run).toEqual(second.run);
      expect(await stateOfRun(port, id)).toBe("running");
      await ack(port, second, null);
      const third = await claimAt(port, "review");
      expect(third.data).toBe("null");
      await ack(port, third, '"report"');
      expect(await endOf(port, id)).toEqual({ id, state: "done", result: '"report"', error: null });
      const { run, parts, next } = await port.run(id);
      expect(run).toEqual({
        ...startOf("extract", "analyse", "review"),
        ...{ id, state: "done", createdAt: startedAt, endedAt: startedAt },
      });
      expect(next).toBeNull();
      expect(idsOf(parts)).toEqual([id, second.id, third.id]);
      expect(parts[1]).toEqual({
        ...{ id: second.id, queue: queueOf("analyse"), stage: "analyse", part: [], state: "done" },
        ...{ createdAt: startedAt, startedAt, endedAt: startedAt },
      });
    });

    test("callers can wait for the result of a run", async () => {
      const { port, clock } = await start();
      const { id } = await begin(port, startOf("a", "b"));
      const end = endOf(port, id);
      await ack(port, await claimAt(port, "a"), "1");
      expect(await isPending(clock, end)).toBe(true);
      await ack(port, await claimAt(port, "b"), "2");
      expect((await end).result).toBe("2");
      await refused(() => port.end(id, { of: "runs", timeout: 0 }).then(() => port.run("no id")), "INVALID");
    });

    test("the tasks of a run are returned in pages", async () => {
      const { port } = await start();
      const { id } = await begin(port, startOf("a", "b", "c"));
      await ack(port, await claimAt(port, "a"));
      await ack(port, await claimAt(port, "b"));
      const page = await port.run(id, { limit: 2 });
      expect(page.parts.map(({ stage }) => stage)).toEqual(["a", "b"]);
      const rest = await port.run(id, { limit: 2, after: page.next! });
      expect(rest.parts.map(({ stage, state }) => `${stage} ${state}`)).toEqual(["c ready"]);
      expect(rest.next).toBeNull();
    });

    test("the runs of a pipeline are listed in pages, the latest first", async () => {
      const { port, clock } = await start();
      const run = startOf("one", "two");
      const ids: string[] = [];
      for (let at = 0; at < 3; at++) {
        ids.unshift((await begin(port, run)).id);
        await clock.advance(SECOND);
      }
      await begin(port, { ...run, pipeline: "other" }, { queue: stageQueue("other", "one") });
      const first = await port.runs({ pipeline: PIPELINE, limit: 2 });
      const rest = await port.runs({ pipeline: PIPELINE, limit: 2, after: first.next! });
      expect([...first.runs, ...rest.runs].map(({ id }) => id)).toEqual(ids);
      expect(rest.next).toBeNull();
      await port.cancelRun(ids[0]!);
      const { runs } = await port.runs({ pipeline: PIPELINE });
      expect(runs.map(({ state }) => state)).toEqual(["cancelled", "running", "running"]);
      expect(runs[0]).toEqual((await port.run(ids[0]!)).run);
      const idsIn = async (state: RunState, page: { limit?: number; after?: number } = {}) => {
        const found = await port.runs({ pipeline: PIPELINE, state, ...page });
        return { ids: found.runs.map(({ id }) => id), next: found.next };
      };
      expect(await idsIn("cancelled")).toEqual({ ids: [ids[0]], next: null });
      const running = await idsIn("running", { limit: 1 });
      expect(running.ids).toEqual([ids[1]]);
      expect((await idsIn("running", { limit: 1, after: running.next! })).ids).toEqual([ids[2]]);
      await reject(port, await claimAt(port, "one"));
      expect((await idsIn("dead")).ids).toEqual([ids[2]]);
      expect((await idsIn("done")).ids).toEqual([]);
      await refused(() => idsIn("over" as never), "INVALID", "running");
      expect(await port.runs({ pipeline: "none" })).toEqual({ runs: [], next: null });
      await refused(() => port.runs({ pipeline: "no name!" }), "INVALID");
      await refused(() => port.runs({ pipeline: PIPELINE, limit: 0 }), "INVALID");
    });

    test("a run shows the states of its tasks", async () => {
      const { port, clock, startedAt } = await start();
      const { id } = await begin(port, startOf("a", "b"), { delay: SECOND });
      expect((await port.run(id)).parts).toMatchObject([
        { state: "scheduled", startedAt: null, endedAt: null },
      ]);
      await clock.advance(SECOND);
      const held = await claimAt(port, "a");
      expect((await port.run(id)).parts).toMatchObject([{ state: "claimed", startedAt: startedAt + SECOND }]);
      await ack(port, held);
      expect(await partsOf(port, id)).toEqual(["a done", "b ready"]);
    });

    test("a run is dead with its stage, and continues when that is redriven", async () => {
      const { port } = await start();
      await port.declare(queueOf("b"), { maxAttempts: 1 });
      const { id } = await begin(port, startOf("a", "b", "c"));
      const end = endOf(port, id);
      await ack(port, await claimAt(port, "a"), "1");
      const held = await claimAt(port, "b");
      expect(await nack(port, held, 0, failure("no luck"))).toBe("dead");
      expect(await end).toMatchObject({ id, state: "dead", result: null, error: { message: "no luck" } });
      expect(await stateOfRun(port, id)).toBe("dead");
      expect(await partsOf(port, id)).toEqual(["a done", "b dead"]);
      const letters = await port.list({ queue: queueOf("b"), state: "dead", limit: 10 });
      expect(letters.tasks).toMatchObject([{ id: held.id, run: { id, stage: "b" } }]);
      expect(await port.redrive(queueOf("b"), {}, 0)).toBe(1);
      expect(await stateOfRun(port, id)).toBe("running");
      await ack(port, await claimAt(port, "b"), "2");
      const last = await claimAt(port, "c");
      expect(last.data).toBe("2");
      await ack(port, last, "3");
      expect(await endOf(port, id)).toMatchObject({ state: "done", result: "3" });
    });

    test("a run survives lost leases and failures of its stages", async () => {
      const { port, clock } = await start();
      const { id } = await begin(port, startOf("a", "b"));
      const lost = await claimOne(port, { queues: [queueOf("a")], lease: SECOND });
      await clock.advance(SECOND);
      const again = await claimAt(port, "a");
      await refused(() => ack(port, lost, '"late"'), "CLAIM_LOST");
      await nack(port, again);
      await ack(port, await claimAt(port, "a"), '"right"');
      expect(namesOf(await claimAll(port, "b"))).toEqual(['"right"']);
      expect(await partsOf(port, id)).toEqual(["a done", "b claimed"]);
    });

    test("a run keeps the stages that it began with", async () => {
      const { port } = await start();
      await begin(port, startOf("a", "b", "c"));
      await begin(port, startOf("a", "c"));
      const [first, second] = await claimAll(port, "a");
      await ack(port, first!, "1");
      await ack(port, second!, "2");
      expect(namesOf(await claimAll(port, "b"))).toEqual(["1"]);
      expect(namesOf(await claimAll(port, "c"))).toEqual(["2"]);
    });

    test("priority and headers are passed from stage to stage", async () => {
      const { port } = await start();
      await begin(port, startOf("a", "b"), {
        ...{ priority: 7, headers: { trace: "x" }, groupKey: "g", ttl: HOUR, maxAttempts: 2 },
      });
      await ack(port, await claimAt(port, "a"), "1");
      expect(await claimAt(port, "b")).toMatchObject({
        ...{ priority: 7, headers: { trace: "x" }, groupKey: null, maxAttempts: 5 },
      });
    });

    test("adding a run with the same key returns the same run", async () => {
      const { port } = await start();
      const first = await begin(port, startOf("a", "b"), { idempotencyKey: "k" });
      const second = await begin(port, startOf("a", "b"), { idempotencyKey: "k" });
      expect(second).toMatchObject({ id: first.id, existing: true });
      expect(await partsOf(port, first.id)).toEqual(["a ready"]);
    });

    test("the success of another task can begin a run", async () => {
      const { port } = await start();
      await port.add([{ queue: "other", data: "1" }]);
      const held = await claimOne(port, { queues: ["other"] });
      const task = { queue: queueOf("a"), data: "2", run: startOf("a", "b") };
      await port.settle(held, { kind: "ack", result: null, adds: [task] });
      const first = await claimAt(port, "a");
      expect(first.run).toMatchObject({ id: first.id, stage: "a" });
      // A stage may add other tasks too.
      await port.settle(first, { kind: "ack", result: "3", adds: [{ queue: "other", data: "4" }] });
      expect(namesOf(await claimAll(port, "b"))).toEqual(["3"]);
      expect(namesOf(await claim(port, { queues: ["other"] }))).toEqual(["4"]);
    });

    test("an ack is refused while the next stage's queue is full, and nothing is lost", async () => {
      const { port } = await start();
      await port.declare(queueOf("b"), { maxDepth: 1 });
      await port.add([{ queue: queueOf("b"), data: '"in the way"' }]);
      const { id } = await begin(port, startOf("a", "b"));
      const held = await claimAt(port, "a");
      await refused(() => ack(port, held, "1"), "QUEUE_FULL");
      expect(await partsOf(port, id)).toEqual(["a claimed"]);
      await claimAll(port, "b");
      await ack(port, held, "1");
      expect(namesOf(await claimAll(port, "b"))).toEqual(["1"]);
    });

    test("many runs can continue at the same moment", async () => {
      const { port } = await start();
      const run = startOf("a", "b", "c");
      const added = await port.add(
        Array.from({ length: 150 }, (_, n) => ({ queue: queueOf("a"), data: `${n}`, run })),
      );
      for (const [stage, factor] of [
        ["a", 2],
        ["b", 3],
        ["c", 5],
      ] as const) {
        const held = await claimAll(port, stage);
        expect(held.map(({ run: place }) => place!.id)).toEqual(idsOf(added));
        await Promise.all(held.map((task) => ack(port, task, `${Number(task.data) * factor}`)));
      }
      const ends = await Promise.all(added.map(({ id }) => endOf(port, id)));
      expect(ends.map(({ result }) => result)).toEqual(added.map((_, n) => `${n * 30}`));
      expect(await depths(port, queueOf("c"))).toEqual({ done: 150 });
    });
  });

  describe("ended runs", () => {
    test("cancelling a run cancels all its tasks", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w", { queues: [queueOf("b")] });
      const { id } = await begin(port, startOf("a", "b", "c"));
      await fanOut(port, await claimAt(port, "a"), [1, 2, 3]);
      const end = endOf(port, id);
      const held = await worker.claimOne();
      expect(await port.cancelRun(id)).toBe("cancelled");
      expect(await end).toEqual({ id, state: "cancelled", result: null, error: null });
      expect(await worker.notices.next()).toMatchObject({ kind: "cancel", id: held.id });
      expect(await partsOf(port, id)).toEqual(["a done", "b 0 claimed", "b 1 cancelled", "b 2 cancelled"]);
      expect(await ack(port, held, "1")).toBe("cancelled");
      expect(await claimAll(port, "c")).toEqual([]);
      expect((await partsOf(port, id))[1]).toBe("b 0 cancelled");
      expect(await port.cancelRun(id)).toBe("cancelled");
    });

    test("cancelling one task cancels its run", async () => {
      const { port } = await start();
      const { id } = await begin(port, startOf("a", "b"));
      await fanOut(port, await claimAt(port, "a"), [1, 2]);
      const [first] = await claimAll(port, "b");
      expect(await port.cancel(first!.id)).toBe("claimed");
      expect(await stateOfRun(port, id)).toBe("cancelled");
      expect(await nack(port, first!)).toBe("cancelled");
    });

    test("a run is cancelled if one of its tasks expires, or is purged or discarded", async () => {
      const { port, clock } = await start();
      const ids: string[] = [];
      for (const stage of ["x", "y", "z"]) {
        const run = { pipeline: stage, stages: stagesOf("a", "b", "c") };
        const [added] = await port.add([{ queue: `${stage}/a`, data: "0", run }]);
        ids.push(added!.id);
        await port.declare(`${stage}/b`, { ttl: stage === "x" ? 10 * SECOND : null });
        await fanOut(port, await claimOne(port, { queues: [`${stage}/a`] }), [1, 2]);
        const held = await claimOne(port, { queues: [`${stage}/b`] });
        await ack(port, held, "1");
        if (stage === "z") await reject(port, await claimOne(port, { queues: [`${stage}/b`] }));
      }
      await clock.advance(10 * SECOND);
      await port.purge("y/b");
      await port.discard("z/b", {});
      for (const [index, state] of (["expired", "cancelled", "cancelled"] as const).entries()) {
        expect(await endOf(port, ids[index]!)).toMatchObject({ state, result: null });
        const { parts } = await port.run(ids[index]!);
        expect(parts.map((part) => part.state)).toEqual(["done", "done", state, "cancelled"]);
      }
    });

    test("a dead letter of an ended run cannot be redriven", async () => {
      const { port } = await start();
      const { id } = await begin(port, startOf("a", "b"));
      await fanOut(port, await claimAt(port, "a"), [1, 2]);
      await reject(port, await claimAt(port, "b"));
      await port.cancelRun(id);
      expect(await partsOf(port, id)).toEqual(["a done", "b 0 dead", "b 1 cancelled"]);
      await port.redrive(queueOf("b"), {}, 0);
      expect(await partsOf(port, id)).toEqual(["a done", "b 0 cancelled", "b 1 cancelled"]);
      expect(await claimAll(port, "b")).toEqual([]);
    });

    test("an ended run is stored as long as ended tasks, also after those of its stages are removed", async () => {
      const { port, clock, startedAt } = await start();
      await port.declare(queueOf("b"), { retention: { age: HOUR, count: 100 } });
      const { id } = await begin(port, startOf("a", "b"));
      await ack(port, await claimAt(port, "a"), "1");
      await clock.advance(SECOND);
      const last = await claimAt(port, "b");
      await ack(port, last, "2");
      await passLong(clock, HOUR + HOUSEKEEPING);
      await refused(() => port.task(last.id), "TASK_NOT_FOUND");
      const told = (await port.run(id)).parts[1];
      const at = startedAt + SECOND;
      expect(told).toMatchObject({ id: last.id, state: "done", startedAt: at, endedAt: at });
      expect((await endOf(port, id)).result).toBe("2");
      await passLong(clock, DAY + HOUSEKEEPING);
      await refused(() => port.run(id), "TASK_NOT_FOUND");
      await refused(() => endOf(port, id), "TASK_NOT_FOUND");
      await refused(() => port.cancelRun(id), "TASK_NOT_FOUND");
    });

    test("only the latest ended runs up to the retention count are stored", async () => {
      const { port, clock } = await start();
      await port.declare(queueOf("a"), { retention: { age: DAY, count: 2 } });
      const ids: string[] = [];
      for (let n = 0; n < 4; n++) {
        ids.push((await begin(port, startOf("a"))).id);
        await ack(port, await claimAt(port, "a"), `${n}`);
      }
      await clock.advance(HOUSEKEEPING);
      for (const id of ids.slice(0, 2)) await refused(() => port.run(id), "TASK_NOT_FOUND");
      expect((await endOf(port, ids[2]!)).result).toBe("2");
    });
  });

  describe("parts of a run", () => {
    test("parts continue independently until a stage joins them once, in their order", async () => {
      const { port } = await start();
      const { id } = await begin(port, startOf("split", "work", "check", "merge+", "end"));
      await fanOut(port, await claimAt(port, "split"), [{ n: 0 }, { n: 1 }, { n: 2 }]);
      const works = await claimAll(port, "work");
      expect(works.map(({ run, data }) => [run!.part, data])).toEqual([
        [[0], '{"n":0}'],
        [[1], '{"n":1}'],
        [[2], '{"n":2}'],
      ]);
      // The last part arrives before the first one starts.
      await ack(port, works[2]!, '"c"');
      await ack(port, await claimAt(port, "check"), '"C"');
      await ack(port, works[0]!, '"a"');
      await ack(port, await claimAt(port, "check"), null);
      expect(await claimAll(port, "merge")).toEqual([]);
      await ack(port, works[1]!, '"b"');
      await ack(port, await claimAt(port, "check"), '"B"');
      const merge = await claimAt(port, "merge");
      expect(merge.data).toBe('[null,"B","C"]');
      expect(merge.run).toMatchObject({ id, stage: "merge", part: [], joins: true });
      await ack(port, merge, '"all"');
      await ack(port, await claimAt(port, "end"), '"end"');
      expect(await endOf(port, id)).toMatchObject({ state: "done", result: '"end"' });
    });

    test("the last parts may arrive at the same moment, and are joined once", async () => {
      const { port } = await start();
      const { id } = await begin(port, startOf("split", "work", "merge+"));
      await fanOut(
        port,
        await claimAt(port, "split"),
        Array.from({ length: 100 }, (_, n) => n),
      );
      const works = await claimAll(port, "work");
      await Promise.all(works.toReversed().map((held) => ack(port, held, held.data)));
      const merge = await claimAt(port, "merge");
      expect(JSON.parse(merge.data as string)).toEqual(Array.from({ length: 100 }, (_, n) => n));
      await ack(port, merge, "1");
      expect((await endOf(port, id)).state).toBe("done");
      expect((await port.run(id)).parts).toHaveLength(102);
    });

    test("each() without items joins at once", async () => {
      const { port } = await start();
      const joined = await begin(port, startOf("split", "work", "merge+"));
      await fanOut(port, await claimAt(port, "split"), []);
      const merge = await claimAt(port, "merge");
      expect(merge.data).toBe("[]");
      await ack(port, merge, "0");
      expect((await endOf(port, joined.id)).result).toBe("0");
      const open = await begin(port, startOf("split", "work"));
      await fanOut(port, await claimAt(port, "split"), []);
      expect(await endOf(port, open.id)).toMatchObject({ state: "done", result: "[]" });
    });

    test("parts without a join become a list of their results", async () => {
      const { port } = await start();
      const { id } = await begin(port, startOf("split", "work"));
      await fanOut(port, await claimAt(port, "split"), [1, 2]);
      const [first, second] = await claimAll(port, "work");
      await ack(port, second!, '"two"');
      expect(await stateOfRun(port, id)).toBe("running");
      await ack(port, first!, '"one"');
      expect(await endOf(port, id)).toMatchObject({ state: "done", result: '["one","two"]' });
    });

    test("parts may be split into parts: all are joined, in their order", async () => {
      const { port } = await start();
      const { id } = await begin(
        port,
        startOf("split", "again", "work", "merge+", "split2", "work2", "merge2+"),
      );
      await fanOut(port, await claimAt(port, "split"), [0, 1, 2]);
      const parts = await claimAll(port, "again");
      await fanOut(port, parts[1]!, ["b", "c"]);
      await ack(port, parts[2]!, '"d"');
      await fanOut(port, parts[0]!, []);
      const works = await claimAll(port, "work");
      expect(works.map(({ run }) => run!.part)).toEqual([[1, 0], [1, 1], [2]]);
      for (const held of works.toReversed()) await ack(port, held, held.data);
      const merge = await claimAt(port, "merge");
      expect(merge.data).toBe('["b","c","d"]');
      await ack(port, merge, "1");
      await fanOut(port, await claimAt(port, "split2"), [7, 8]);
      for (const held of await claimAll(port, "work2")) await ack(port, held, held.data);
      expect((await claimAt(port, "merge2")).data).toBe("[7,8]");
      expect(await stateOfRun(port, id)).toBe("running");
    });

    test("a single part is joined too", async () => {
      const { port } = await start();
      await begin(port, startOf("a", "merge+"));
      await ack(port, await claimAt(port, "a"), '"only"');
      expect((await claimAt(port, "merge")).data).toBe('["only"]');
    });

    test("a join waits for dead parts until they are redriven", async () => {
      const { port } = await start();
      const { id } = await begin(port, startOf("split", "work", "merge+"));
      await fanOut(port, await claimAt(port, "split"), [1, 2]);
      const [first, second] = await claimAll(port, "work");
      await reject(port, first!);
      await ack(port, second!, '"two"');
      expect(await stateOfRun(port, id)).toBe("dead");
      expect(await claimAll(port, "merge")).toEqual([]);
      await port.redrive(queueOf("work"), {}, 0);
      await ack(port, await claimAt(port, "work"), '"one"');
      expect((await claimAt(port, "merge")).data).toBe('["one","two"]');
    });

    test("each() is refused if no stage works on the parts, and the claim stays valid", async () => {
      const { port } = await start();
      const { id } = await begin(port, startOf("a", "merge+"));
      const fan = { kind: "ack", result: "[1]", each: true } as const;
      const held = await claimAt(port, "a");
      await refused(() => port.settle(held, fan), "INVALID", "merge", "joins");
      await ack(port, held, "1");
      const last = await claimAt(port, "merge");
      await refused(() => port.settle(last, fan), "INVALID", "last");
      await refused(() => port.settle(last, { ...fan, result: "{" }), "INVALID");
      expect(await stateOf(port, last.id)).toBe("claimed");
      await port.add([{ queue: "other", data: "1" }]);
      const other = await claimOne(port, { queues: ["other"] });
      await refused(() => port.settle(other, fan), "INVALID", "does not belong to a run of a pipeline");
      const next = await begin(port, startOf("a", "b"));
      const again = await claimAt(port, "a");
      await refused(() => port.settle(again, { ...fan, result: '"x"' }), "INVALID", "array");
      expect(await stateOfRun(port, id)).toBe("running");
      expect(await stateOfRun(port, next.id)).toBe("running");
    });
  });

  describe("verified stages", () => {
    test("a verified stage continues when its result is accepted", async () => {
      const { port } = await start();
      await port.declare(queueOf("a"), { verified: true });
      const { id } = await begin(port, startOf("a", "b"));
      const judge = async (held: ClaimedTask, accepted: boolean) => {
        const asking = await claimOne(port, { queues: [verificationQueue(queueOf("a"))] });
        const of = { id: held.id, fence: held.fence };
        const word = accepted
          ? ({ kind: "accept", of } as const)
          : ({ kind: "refuse", of: { ...of, queue: held.queue, attempt: 1 }, feedback: "no" } as const);
        await port.settle(asking, word);
      };
      const first = await claimAt(port, "a");
      expect(await ack(port, first, "1")).toBe("verifying");
      expect(await claimAll(port, "b")).toEqual([]);
      expect(await partsOf(port, id)).toEqual(["a verifying"]);
      await judge(first, false);
      expect(await claimAll(port, "b")).toEqual([]);
      await port.redrive(queueOf("a"), {}, 0);
      expect((await port.run(id)).parts).toHaveLength(1);
    });

    test("a verified stage makes parts when its result is accepted", async () => {
      const { port } = await start();
      await port.declare(queueOf("a"), { verified: true });
      const { id } = await begin(port, startOf("a", "b"));
      const held = await claimAt(port, "a");
      const { state } = await port.settle(held, { kind: "ack", result: "[1,2]", each: true });
      expect(state).toBe("verifying");
      expect(await claimAll(port, "b")).toEqual([]);
      const asking = await claimOne(port, { queues: [verificationQueue(queueOf("a"))] });
      await port.settle(asking, { kind: "accept", of: { id, fence: held.fence } });
      expect(namesOf(await claimAll(port, "b"))).toEqual(["1", "2"]);
    });
  });

  describe("pipelines", () => {
    test("all processes know the last definition of a pipeline", async () => {
      const { port } = await start();
      expect((await port.pipelines({ name: "report" })).items).toEqual([]);
      expect(await port.definePipeline("report", stagesOf("a", "b"))).toBeNull();
      expect(await port.definePipeline("report", stagesOf("a", "c+"))).toEqual(stagesOf("a", "b"));
      await port.definePipeline("another", stagesOf("x"));
      expect((await port.pipelines({ name: "report" })).items).toEqual([
        { name: "report", stages: stagesOf("a", "c+") },
      ]);
      expect((await port.pipelines()).items.map(({ name }) => name)).toEqual(["another", "report"]);
    });

    test("an invalid definition of a pipeline is refused", async () => {
      const { port } = await start();
      const bad: [Stage[], string][] = [
        [[], "stages"],
        [stagesOf("a", "a"), "two stages"],
        [stagesOf("a+"), "cannot join"],
        [stagesOf("a/b"), "letters"],
        [stagesOf("a", "verify"), "verification"],
      ];
      for (const [stages, word] of bad) {
        await refused(() => port.definePipeline(PIPELINE, stages), "INVALID", word);
        const task = { queue: queueOf("a"), data: "1", run: { pipeline: PIPELINE, stages } };
        await refused(() => port.add([task]), "INVALID", word);
      }
      const elsewhere = { queue: queueOf("b"), data: "1", run: startOf("a", "b") };
      await refused(() => port.add([elsewhere]), "INVALID", "begins in");
    });
  });
}
