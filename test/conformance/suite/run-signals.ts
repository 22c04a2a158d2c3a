import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import { type RunStart, stageQueue } from "../../../src/core/run/run.ts";
import type { ClaimedTask } from "../../../src/core/task/task.ts";
import { ack, claim, claimOne, MINUTE, nack, passLong, refused, SECOND, type Start, stateOf } from "./kit.ts";

const PIPELINE = "report";
const RUN: RunStart = {
  pipeline: PIPELINE,
  stages: [
    { name: "a", joins: false },
    { name: "b", joins: false },
    { name: "c", joins: true },
  ],
};
const queueOf = (stage: string): string => stageQueue(PIPELINE, stage);

async function begin(port: Port, fields: { ttl?: number } = {}): Promise<string> {
  const [added] = await port.add([{ queue: queueOf("a"), data: "1", run: RUN, ...fields }]);
  return added!.id;
}

const claimAt = (port: Port, stage: string): Promise<ClaimedTask> =>
  claimOne(port, { queues: [queueOf(stage)] });

async function park(port: Port, held: ClaimedTask, timeout: number | null = null): Promise<string> {
  return (await port.settle(held, { kind: "park", signal: "go", timeout })).state;
}

const signal = (port: Port, id: string, value = '"yes"', name = "go"): Promise<boolean> =>
  port.signal(id, name, value, { of: "runs" });

const GO = { kind: "signal", name: "go", value: '"yes"' };

export function runSignals(start: Start): void {
  describe("signals of a run", () => {
    test("a signal of the run wakes its task that is parked for it", async () => {
      const { port } = await start();
      const id = await begin(port);
      const held = await claimAt(port, "a");
      expect(await park(port, held)).toBe("parked");
      expect(await signal(port, id)).toBe(true);
      const again = await claimAt(port, "a");
      expect(again).toMatchObject({ id, stepped: true, attempt: 1 });
      expect(await port.steps(id)).toEqual([GO]);
    });

    test("a signal of the run reaches all parts that wait for it, and no others", async () => {
      const { port } = await start();
      const id = await begin(port);
      await port.settle(await claimAt(port, "a"), { kind: "ack", result: "[1,2,3]", each: true });
      const [one, two, other] = await claim(port, { queues: [queueOf("b")], max: 9 });
      await park(port, one!);
      await park(port, two!);
      await port.settle(other!, { kind: "park", signal: "other", timeout: null });
      expect(await signal(port, id)).toBe(true);
      const woken = await claim(port, { queues: [queueOf("b")], max: 9 });
      expect(woken.map((task) => task.id)).toEqual([one!.id, two!.id]);
      expect(await stateOf(port, other!.id)).toBe("parked");
    });

    test("an early signal of the run is kept for tasks of later stages", async () => {
      const { port } = await start();
      const id = await begin(port);
      expect(await signal(port, id)).toBe(true);
      await ack(port, await claimAt(port, "a"), "2");
      const held = await claimAt(port, "b");
      expect(held.stepped).toBeUndefined();
      expect(await park(port, held)).toBe("ready");
      const again = await claimAt(port, "b");
      expect(again.stepped).toBe(true);
      expect(await port.steps(again.id)).toEqual([GO]);
    });

    test("a run stores one signal of each name", async () => {
      const { port } = await start();
      const id = await begin(port);
      expect(await signal(port, id)).toBe(true);
      expect(await signal(port, id, '"again"')).toBe(false);
      expect(await signal(port, id, "1", "other")).toBe(true);
      await park(port, await claimAt(port, "a"));
      expect(await port.steps(id)).toEqual([GO]);
    });

    test("a task keeps its own signal of that name, and its timeout", async () => {
      const { port, clock } = await start();
      const id = await begin(port);
      await port.signal(id, "go", '"own"');
      await signal(port, id);
      expect(await park(port, await claimAt(port, "a"))).toBe("ready");
      expect(await port.steps(id)).toEqual([{ kind: "signal", name: "go", value: '"own"' }]);
      const other = await begin(port);
      await claimAt(port, "a");
      await park(port, await claimAt(port, "a"), MINUTE);
      await passLong(clock, MINUTE + SECOND);
      const late = await claimAt(port, "a");
      expect(await signal(port, other)).toBe(true);
      expect(await park(port, late)).toBe("ready");
      expect(await port.steps(other)).toEqual([{ kind: "timeout", name: "go", value: null }]);
    });

    test("a signal of the run stays after a failed attempt", async () => {
      const { port, clock } = await start();
      const id = await begin(port);
      await signal(port, id);
      await park(port, await claimAt(port, "a"));
      await nack(port, await claimAt(port, "a"));
      await passLong(clock, MINUTE);
      expect((await claimAt(port, "a")).stepped).toBe(true);
      expect(await port.steps(id)).toEqual([GO]);
    });

    test("an ended run stores no signal, but a dead run does", async () => {
      const { port } = await start();
      const id = await begin(port);
      await port.settle(await claimAt(port, "a"), {
        kind: "reject",
        error: { name: "Error", message: "no", stack: null },
      });
      expect(await signal(port, id)).toBe(true);
      await port.redrive(queueOf("a"), {}, 0);
      expect(await park(port, await claimAt(port, "a"))).toBe("ready");
      await port.cancelRun(id);
      expect(await signal(port, id, "1", "other")).toBe(false);
      await refused(() => signal(port, "no id"), "INVALID");
      const [lone] = await port.add([{ queue: "q", data: "1" }]);
      await refused(() => signal(port, lone!.id), "TASK_NOT_FOUND");
    });

    test("a task whose run ends is not woken by its signal", async () => {
      const { port } = await start();
      const id = await begin(port);
      await park(port, await claimAt(port, "a"));
      await port.cancelRun(id);
      expect(await signal(port, id)).toBe(false);
      expect(await stateOf(port, id)).toBe("cancelled");
    });

    test("a run's signals have the limits of a task's", async () => {
      const { port } = await start();
      const id = await begin(port);
      const large = JSON.stringify("x".repeat(200_000));
      for (let n = 0; n < 20; n++) await signal(port, id, large, `s${n}`);
      await refused(() => signal(port, id, JSON.stringify("x".repeat(250_000)), "last"), "PAYLOAD_TOO_LARGE");
      expect(await signal(port, id, "1", "small")).toBe(true);
    });
  });
}
