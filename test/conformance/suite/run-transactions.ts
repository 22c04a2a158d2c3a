import { describe, expect, test } from "vitest";
import { type RunStart, stageQueue } from "../../../src/core/run/run.ts";
import type { NewTask } from "../../../src/core/task/task.ts";
import { ack, addOne, claim, claimOne, type Start, stateOf } from "./kit.ts";

const RUN: RunStart = {
  pipeline: "report",
  stages: [
    { name: "first", joins: false },
    { name: "second", joins: false },
  ],
};
const FIRST = stageQueue("report", "first");
const SECOND = stageQueue("report", "second");

function runTask(fields: Partial<NewTask> = {}): NewTask {
  return { queue: FIRST, data: '"in"', run: RUN, ...fields };
}

/** Runs that begin in the caller's transaction. */
export function runTransactions(start: Start): void {
  describe("a run that begins in the caller's transaction", () => {
    test("a run begins at the commit of the caller's transaction, and continues stage by stage", async () => {
      const { port, begin } = await start();
      const tx = await begin();
      const [added] = await port.add([runTask({ priority: 3, headers: { a: "b" } })], { tx });
      expect(added).toMatchObject({ queue: FIRST, state: "ready", existing: false });
      expect(await claim(port, { queues: [FIRST] })).toEqual([]);
      await tx.commit();
      const { id } = added!;
      expect((await port.run(id)).run).toMatchObject({ ...RUN, id, state: "running" });
      const first = await claimOne(port, { queues: [FIRST] });
      expect(first).toMatchObject({ id, run: { id, pipeline: "report", stage: "first", part: [] } });
      await ack(port, first, '"middle"');
      const second = await claimOne(port, { queues: [SECOND] });
      expect(second).toMatchObject({ data: '"middle"', priority: 3, headers: { a: "b" } });
      await ack(port, second, '"out"');
      expect(await port.end(id, { of: "runs" })).toMatchObject({ state: "done", result: '"out"' });
    });

    test("a run does not exist if the caller's transaction is rolled back", async () => {
      const { port, begin } = await start();
      const tx = await begin();
      const [added] = await port.add([runTask({ idempotencyKey: "k" })], { tx });
      await tx.rollback();
      await expect(port.run(added!.id)).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
      expect(await claim(port, { queues: [FIRST] })).toEqual([]);
      const [again] = await port.add([runTask({ idempotencyKey: "k" })]);
      expect(again).toMatchObject({ existing: false });
    });

    test("a run and its task can be cancelled right after the caller's commit", async () => {
      const { port, begin } = await start();
      const tx = await begin();
      const [added] = await port.add([runTask({ delay: 60_000 })], { tx });
      await tx.commit();
      expect(await port.cancelRun(added!.id)).toBe("cancelled");
      expect(await stateOf(port, added!.id)).toBe("cancelled");
    });

    test("a run is cancelled if its queue was dropped before the caller's commit", async () => {
      const { port, begin } = await start();
      await port.declare(FIRST, {});
      const tx = await begin();
      const [added] = await port.add([runTask()], { tx });
      await port.drop(FIRST);
      await tx.commit();
      expect(await claim(port, { queues: [FIRST] })).toEqual([]);
      expect((await port.run(added!.id)).run.state).toBe("cancelled");
    });

    test("an ack in the caller's transaction can begin a run", async () => {
      const { port, begin } = await start();
      await addOne(port);
      const held = await claimOne(port);
      const tx = await begin();
      await port.settle(held, { kind: "ack", result: null, adds: [runTask()] }, { tx });
      expect(await claim(port, { queues: [FIRST] })).toEqual([]);
      await tx.commit();
      const first = await claimOne(port, { queues: [FIRST] });
      expect(first.run).toMatchObject({ id: first.id, stage: "first" });
    });
  });

  test("acking a child in the caller's transaction is refused, but acking its parent is not", async () => {
    const { port, begin } = await start();
    await addOne(port);
    const parent = await claimOne(port);
    await port.spawn(parent, [{ name: "a", task: { queue: "parts", data: "1" } }]);
    const child = await claimOne(port, { queues: ["parts"] });
    const tx = await begin();
    const acked = port.settle(child, { kind: "ack", result: null }, { tx });
    await expect(acked).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringContaining("spawned by another task"),
    });
    await port.settle(parent, { kind: "ack", result: null }, { tx });
    await tx.commit();
    expect(await stateOf(port, parent.id)).toBe("done");
    expect(await ack(port, child)).toBe("done");
  });

  test("acking a stage in the caller's transaction is refused", async () => {
    const { port, begin } = await start();
    await port.add([runTask()]);
    const held = await claimOne(port, { queues: [FIRST] });
    const tx = await begin();
    const acked = port.settle(held, { kind: "ack", result: null }, { tx });
    await expect(acked).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringContaining("stage of a run"),
    });
    await tx.rollback();
    expect(await ack(port, held)).toBe("done");
  });
}
