import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import { type RunStart, type Stage, stageQueue } from "../../../src/core/run/run.ts";
import type { ClaimedTask, TaskEnd } from "../../../src/core/task/task.ts";
import { verificationQueue } from "../../../src/core/handler/verification.ts";
import { ack, claim, claimOne, isPending, nack, refused, reject, type Start, stateOf } from "./kit.ts";

const PIPELINE = "graph";
const queueOf = (stage: string): string => stageQueue(PIPELINE, stage);

/** "c+ a,b": c joins, and comes after a and b. A comma makes a list. */
function stagesOf(...texts: string[]): Stage[] {
  return texts.map((text) => {
    const [name, after] = text.split(" ");
    const list = after?.includes(",") ? after.split(",") : after;
    return {
      name: name!.replace("+", ""),
      joins: name!.endsWith("+"),
      ...(list !== undefined && { after: list }),
    };
  });
}

const startOf = (...texts: string[]): RunStart => ({ pipeline: PIPELINE, stages: stagesOf(...texts) });

const DIAMOND = startOf("a", "left", "right a", "merge left,right");

async function begin(port: Port, run: RunStart = DIAMOND): Promise<string> {
  const [added] = await port.add([{ queue: queueOf(run.stages[0]!.name), data: '"in"', run }]);
  return added!.id;
}

const claimAt = (port: Port, stage: string): Promise<ClaimedTask> =>
  claimOne(port, { queues: [queueOf(stage)] });

const claimAll = (port: Port, stage: string): Promise<ClaimedTask[]> =>
  claim(port, { queues: [queueOf(stage)], max: 1_000 });

async function ackAt(port: Port, stage: string, result: string | null): Promise<void> {
  expect(await ack(port, await claimAt(port, stage), result)).toBe("done");
}

const parts = (items: unknown[]) => ({ kind: "ack", result: JSON.stringify(items), each: true }) as const;

async function split(port: Port, stage: string, items: unknown[]): Promise<void> {
  expect((await port.settle(await claimAt(port, stage), parts(items))).state).toBe("done");
}

const endOf = (port: Port, id: string): Promise<TaskEnd> => port.end(id, { of: "runs" });

/** How many tasks of a stage could start. */
async function readyAt(port: Port, stage: string): Promise<number> {
  return (await port.stats(queueOf(stage))).depth.ready;
}

export function stageGraphs(start: Start): void {
  describe("stages that follow several others", () => {
    test("a stage may be followed by several, and one that merges gets an object with their results", async () => {
      const { port } = await start();
      const id = await begin(port);
      await ackAt(port, "a", "1");
      const left = await claimAt(port, "left");
      const right = await claimAt(port, "right");
      expect([left.data, right.data]).toEqual(["1", "1"]);
      await ack(port, left, "2");
      expect(await readyAt(port, "merge")).toBe(0);
      await ack(port, right, null);
      const merge = await claimAt(port, "merge");
      expect(merge).toMatchObject({
        data: '{"left":2,"right":null}',
        run: { id, stage: "merge", part: [], joins: false, after: ["left", "right"] },
      });
      expect((await port.task(merge.id)).run).toEqual(merge.run);
      await ack(port, merge, '"all"');
      expect(await endOf(port, id)).toEqual({ id, state: "done", result: '"all"', error: null });
      const page = await port.run(id);
      expect(page.run.stages).toEqual(DIAMOND.stages);
      expect(page.parts.map(({ stage, state }) => `${stage} ${state}`)).toEqual([
        "a done",
        "left done",
        "right done",
        "merge done",
      ]);
    });

    test("a stage follows the one before it unless it says otherwise", async () => {
      const { port } = await start();
      const id = await begin(port, startOf("a", "b", "c", "d a", "e c,d"));
      await ackAt(port, "a", "1");
      await ackAt(port, "d", "4");
      await ackAt(port, "b", "2");
      await ackAt(port, "c", "3");
      expect((await claimAt(port, "e")).data).toBe('{"c":3,"d":4}');
      expect((await port.run(id)).run.state).toBe("running");
    });

    test("the result of a run with several last stages is an object with the result of each", async () => {
      const { port, clock } = await start();
      const id = await begin(port, startOf("a", "mail", "index a"));
      await ackAt(port, "a", "1");
      await ackAt(port, "index", null);
      const end = endOf(port, id);
      expect(await isPending(clock, end)).toBe(true);
      await ackAt(port, "mail", '"sent"');
      expect(await end).toEqual({ id, state: "done", result: '{"mail":"sent","index":null}', error: null });
    });

    test("the results of each part are merged separately", async () => {
      const { port } = await start();
      const id = await begin(port);
      await split(port, "a", ["x", "y"]);
      const [leftX, leftY] = await claimAll(port, "left");
      const [rightX, rightY] = await claimAll(port, "right");
      await ack(port, leftX!, "1");
      await ack(port, rightY!, "4");
      expect(await readyAt(port, "merge")).toBe(0);
      await ack(port, rightX!, "2");
      const merged = await claimAt(port, "merge");
      expect(merged).toMatchObject({ data: '{"left":1,"right":2}', run: { part: [0] } });
      await ack(port, leftY!, "3");
      const other = await claimAt(port, "merge");
      expect(other).toMatchObject({ data: '{"left":3,"right":4}', run: { part: [1] } });
      await ack(port, other, '"second"');
      await ack(port, merged, '"first"');
      expect((await endOf(port, id)).result).toBe('["first","second"]');
    });

    test("a joining stage waits for the stages before it, and for no others", async () => {
      const { port } = await start();
      const id = await begin(port, startOf("a", "split", "work", "all+", "slow a", "end all,slow"));
      await ackAt(port, "a", "1");
      await split(port, "split", ["x", "y"]);
      for (const task of await claimAll(port, "work")) await ack(port, task, task.data);
      expect(await readyAt(port, "slow")).toBe(1);
      const all = await claimAt(port, "all");
      expect(all).toMatchObject({ data: '["x","y"]', run: { joins: true, part: [] } });
      await ack(port, all, "2");
      expect(await readyAt(port, "end")).toBe(0);
      await ackAt(port, "slow", "3");
      await ackAt(port, "end", "4");
      expect((await endOf(port, id)).result).toBe("4");
    });

    test("a joining stage of several stages gets a list of the results of each", async () => {
      const { port } = await start();
      const id = await begin(port, startOf("a", "left", "right a", "all+ left,right"));
      await split(port, "a", ["x", "y"]);
      for (const task of (await claimAll(port, "left")).toReversed()) await ack(port, task, task.data);
      const [first, second] = await claimAll(port, "right");
      await ack(port, first!, "1");
      expect(await readyAt(port, "all")).toBe(0);
      await ack(port, second!, null);
      const all = await claimAt(port, "all");
      expect(all).toMatchObject({
        data: '{"left":["x","y"],"right":[1,null]}',
        run: { joins: true, part: [], after: ["left", "right"] },
      });
      await ack(port, all, "9");
      expect((await endOf(port, id)).result).toBe("9");
    });

    test("zero parts are joined at once, and a stage that merges parts never starts for them", async () => {
      const { port } = await start();
      await begin(port, startOf("a", "left", "right a", "merge left,right", "all+"));
      await split(port, "a", []);
      expect((await claimAt(port, "all")).data).toBe("[]");
      const other = await begin(port);
      await split(port, "a", []);
      expect((await endOf(port, other)).result).toBe("[]");
    });

    test("parts that a stage would merge with something whole are refused", async () => {
      const { port } = await start();
      await begin(port, startOf("a", "b", "c", "d a", "e c,d"));
      await ackAt(port, "a", "1");
      const held = await claimAt(port, "b");
      await refused(() => port.settle(held, parts([1])), "INVALID", 'merges its parts with "d"');
      expect(await ack(port, held, "2")).toBe("done");
    });

    test("each() directly before a stage that joins or merges, and in a last stage, is refused", async () => {
      const { port } = await start();
      await begin(port);
      await ackAt(port, "a", "1");
      const left = await claimAt(port, "left");
      await refused(() => port.settle(left, parts([1])), "INVALID", "is not split");
      await ack(port, left, "2");
      await ackAt(port, "right", "3");
      const merge = await claimAt(port, "merge");
      await refused(() => port.settle(merge, parts([1])), "INVALID", "there is no stage for the parts");
      await begin(port, startOf("a", "b", "all+", "c a"));
      await ackAt(port, "a", "1");
      const held = await claimAt(port, "b");
      await refused(() => port.settle(held, parts([1])), "INVALID", "joins");
    });

    test("a dead stage of a branch is redriven, and the others are not repeated", async () => {
      const { port } = await start();
      const id = await begin(port);
      await ackAt(port, "a", "1");
      await reject(port, await claimAt(port, "left"));
      await ackAt(port, "right", "3");
      expect((await port.run(id)).run.state).toBe("dead");
      expect((await endOf(port, id)).state).toBe("dead");
      expect(await port.redrive(queueOf("left"), {}, 0)).toBe(1);
      await ackAt(port, "left", "2");
      expect((await claimAt(port, "merge")).data).toBe('{"left":2,"right":3}');
    });

    test("a stage that merges and fails is tried again with the same input", async () => {
      const { port } = await start();
      await port.declare(queueOf("merge"), {
        backoff: { type: "fixed", delay: 0, max: 0, jitter: 0 },
        elsewhere: 0,
      });
      await begin(port);
      await ackAt(port, "a", "1");
      await ackAt(port, "left", "2");
      await ackAt(port, "right", "3");
      await nack(port, await claimAt(port, "merge"));
      const [again, ...others] = await claimAll(port, "merge");
      expect(again).toMatchObject({ data: '{"left":2,"right":3}', attempt: 2 });
      expect(others).toEqual([]);
    });

    test("cancelling a run cancels all its branches", async () => {
      const { port } = await start();
      const id = await begin(port);
      await ackAt(port, "a", "1");
      const page = await port.run(id);
      await port.cancelRun(id);
      for (const { id: task, stage } of page.parts)
        expect(await stateOf(port, task)).toBe(stage === "a" ? "done" : "cancelled");
    });

    test("a verified branch is merged when its result is accepted", async () => {
      const { port } = await start();
      await port.declare(queueOf("left"), { verified: true });
      await begin(port);
      await ackAt(port, "a", "1");
      await ackAt(port, "right", "3");
      const left = await claimAt(port, "left");
      expect(await ack(port, left, "2")).toBe("verifying");
      expect(await readyAt(port, "merge")).toBe(0);
      const asked = await claimOne(port, { queues: [verificationQueue(queueOf("left"))] });
      await port.settle(asked, { kind: "accept", of: { id: left.id, fence: left.fence } });
      expect((await claimAt(port, "merge")).data).toBe('{"left":2,"right":3}');
    });

    test("each stage takes its own cost, also one that merges", async () => {
      const { port } = await start();
      const cost: Record<string, number> = { right: 3, merge: 5 };
      const stages = DIAMOND.stages.map((stage) => ({
        ...stage,
        ...(cost[stage.name] && { cost: cost[stage.name]! }),
      }));
      await begin(port, { pipeline: PIPELINE, stages });
      await ackAt(port, "a", "1");
      const right = await claimAt(port, "right");
      expect(right.cost).toBe(3);
      await ack(port, right, "1");
      const left = await claimAt(port, "left");
      expect(left.cost).toBeUndefined();
      await ack(port, left, "1");
      expect((await claimAt(port, "merge")).cost).toBe(5);
    });

    test("a run with branches continues with the stages that it began with", async () => {
      const { port } = await start();
      await port.definePipeline(PIPELINE, DIAMOND.stages);
      expect((await port.pipelines()).items).toEqual([{ name: PIPELINE, stages: DIAMOND.stages }]);
      await begin(port);
      await port.definePipeline(PIPELINE, stagesOf("a", "left", "merge"));
      await ackAt(port, "a", "1");
      await ackAt(port, "left", "2");
      await ackAt(port, "right", "3");
      expect((await claimAt(port, "merge")).data).toBe('{"left":2,"right":3}');
    });

    test("many parts are merged and joined", async () => {
      const { port } = await start();
      const id = await begin(port, startOf("a", "left", "right a", "merge left,right", "all+"));
      const items = Array.from({ length: 100 }, (_, n) => n);
      await split(port, "a", items);
      const tasks = [...(await claimAll(port, "left")), ...(await claimAll(port, "right")).toReversed()];
      await Promise.all(tasks.map((task) => ack(port, task, task.data)));
      const merged = await claimAll(port, "merge");
      const inOrder = merged.toSorted((one, two) => one.run!.part[0]! - two.run!.part[0]!);
      expect(inOrder.map(({ data }) => data)).toEqual(items.map((n) => `{"left":${n},"right":${n}}`));
      await Promise.all(merged.map((task) => ack(port, task, JSON.stringify(task.run!.part[0]))));
      const all = await claimAt(port, "all");
      expect(JSON.parse(all.data as string)).toEqual(items);
      await ack(port, all, "0");
      expect((await endOf(port, id)).result).toBe("0");
    });

    test("definitions with cycles, unknown names and other mistakes are refused", async () => {
      const { port } = await start();
      const define = (...texts: string[]) => port.definePipeline(PIPELINE, stagesOf(...texts));
      await refused(() => define("a", "b b"), "INVALID", "cannot come after itself");
      await refused(() => define("a", "b c", "c"), "INVALID", "not defined before it");
      await refused(() => define("a", "b nowhere"), "INVALID", "not defined before it");
      await refused(() => define("a b", "b"), "INVALID", "is the first");
      await refused(() => define("a", "b", "c a,a"), "INVALID", "names a stage twice");
      const list: Stage[] = [...stagesOf("a", "b"), { name: "c", joins: false, after: ["a"] }];
      await refused(() => port.definePipeline(PIPELINE, list), "INVALID", "at least two");
      const withCost = (stages: Stage[], name: string): Stage[] =>
        stages.map((stage) => (stage.name === name ? { ...stage, cost: "input" } : stage));
      const costly = withCost(stagesOf("a", "b", "c a"), "b");
      await refused(() => port.definePipeline(PIPELINE, costly), "INVALID", "must be a number");
      const merging = withCost(DIAMOND.stages, "merge");
      await refused(() => port.definePipeline(PIPELINE, merging), "INVALID", "must be a number");
    });
  });
}
