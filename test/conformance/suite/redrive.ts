import { describe, expect, test } from "vitest";
import {
  ack,
  addNamed,
  addOne,
  claimNames,
  claimOne,
  depths,
  failure,
  isPending,
  makeDead,
  nack,
  numbered,
  QUEUE,
  SECOND,
  type Start,
  stateOf,
  waiting,
} from "./kit.ts";

export function redrive(start: Start): void {
  describe("redrive", () => {
    test("a redriven task gets all its attempts again, and keeps its fields", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { maxAttempts: 1, idempotencyKey: "k", headers: { h: "1" } });
      await nack(port, await claimOne(port));
      expect(await port.redrive(QUEUE, {}, 0)).toBe(1);
      expect(await port.task(id)).toMatchObject({
        state: "ready",
        attempt: 1,
        maxAttempts: 1,
        idempotencyKey: "k",
        headers: { h: "1" },
        error: null,
        endedAt: null,
      });
      const held = await claimOne(port);
      expect(held).toMatchObject({ id, attempt: 1 });
      expect(await ack(port, held, "now")).toBe("done");
    });

    test("a redriven task keeps its ledger, and continues it", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { maxAttempts: 2 });
      await nack(port, await claimOne(port));
      await nack(port, await claimOne(port));
      await port.redrive(QUEUE, {}, 0);
      await nack(port, await claimOne(port));
      await ack(port, await claimOne(port));
      expect((await port.history(id)).map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
        [1, "failed"],
        [2, "failed"],
        [1, "failed"],
        [2, "done"],
      ]);
    });

    test("a redriven task can die again, after as many attempts as before", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { maxAttempts: 2 });
      for (let life = 0; life < 3; life++) {
        expect(await nack(port, await claimOne(port))).toBe("ready");
        expect(await nack(port, await claimOne(port))).toBe("dead");
        if (life < 2) await port.redrive(QUEUE, {}, 0);
      }
      expect(await stateOf(port, id)).toBe("dead");
      expect(await port.history(id)).toHaveLength(6);
    });

    test("redriven tasks go behind the others, in the order of their deaths", async () => {
      const { port } = await start();
      await makeDead(port, { data: "1" });
      await makeDead(port, { data: "2" });
      await addNamed(port, ["3"]);
      expect(await port.redrive(QUEUE, {}, 0)).toBe(2);
      expect(await claimNames(port)).toEqual(["3", "1", "2"]);
    });

    test("a redrive takes only tasks that match the filter", async () => {
      const { port } = await start();
      const a = await makeDead(port, { data: "a" }, failure("row 7"));
      const b = await makeDead(port, { data: "b" }, failure("other"));
      const c = await makeDead(port, { data: "c" }, failure("row 8"));
      expect(await port.redrive(QUEUE, { pattern: "Error: row <n>" }, 0)).toBe(2);
      expect(await stateOf(port, b)).toBe("dead");
      expect(await port.redrive(QUEUE, { ids: [a, b, c] }, 0)).toBe(1);
      expect(await port.redrive(QUEUE, { error: "other" }, 0)).toBe(0);
      expect(await claimNames(port)).toEqual(["a", "c", "b"]);
    });

    test("a redrive does not affect other queues", async () => {
      const { port } = await start();
      const id = await makeDead(port, { queue: "other" });
      expect(await port.redrive(QUEUE, {}, 0)).toBe(0);
      expect(await port.redrive(QUEUE, { ids: [id] }, 0)).toBe(0);
      expect(await stateOf(port, id)).toBe("dead");
    });

    test("a redrive with a rate makes the tasks ready one after another", async () => {
      const { port, clock } = await start();
      for (const data of numbered(4)) await makeDead(port, { data });
      expect(await port.redrive(QUEUE, {}, 500)).toBe(4);
      expect(await depths(port)).toEqual({ ready: 1, scheduled: 3 });
      expect(await claimNames(port)).toEqual(["0"]);
      for (const name of ["1", "2", "3"]) {
        const next = waiting(port);
        await clock.advance(499);
        expect(await isPending(clock, next)).toBe(true);
        await clock.advance(1);
        expect((await next)[0]!.data).toBe(name);
      }
    });

    test("a redrive takes any number of tasks", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxAttempts: 1 });
      await addNamed(port, numbered(3_000));
      for (let round = 0; round < 3; round++) {
        const { tasks } = await port.claim({ queues: [QUEUE], max: 1_000, worker: "w", wait: 0 });
        await Promise.all(tasks.map((task) => nack(port, task)));
      }
      expect(await depths(port)).toEqual({ dead: 3_000 });
      expect(await port.redrive(QUEUE, {}, 0)).toBe(3_000);
      expect(await depths(port)).toEqual({ ready: 3_000 });
    });

    test("a full queue does not stop a redrive", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 1 });
      await makeDead(port);
      await addOne(port);
      expect(await port.redrive(QUEUE, {}, SECOND)).toBe(1);
      expect(await depths(port)).toEqual({ ready: 2 });
    });
  });
}
