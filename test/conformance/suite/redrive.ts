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
  describe("a redrive", () => {
    test("gives a dead letter all its attempts again, and keeps what it is", async () => {
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

    test("keeps the ledger, and goes on with it", async () => {
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

    test("can be followed by another death, with as many attempts as the first", async () => {
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

    test("puts them behind what is there, in the order of their death", async () => {
      const { port } = await start();
      await makeDead(port, { data: "1" });
      await makeDead(port, { data: "2" });
      await addNamed(port, ["3"]);
      expect(await port.redrive(QUEUE, {}, 0)).toBe(2);
      expect(await claimNames(port)).toEqual(["3", "1", "2"]);
    });

    test("takes only those that the filter names", async () => {
      const { port } = await start();
      const a = await makeDead(port, { data: "a" }, failure("code 7"));
      const b = await makeDead(port, { data: "b" }, failure("other"));
      const c = await makeDead(port, { data: "c" }, failure("code 8"));
      expect(await port.redrive(QUEUE, { pattern: "Error: code <n>" }, 0)).toBe(2);
      expect(await stateOf(port, b)).toBe("dead");
      expect(await port.redrive(QUEUE, { ids: [a, b, c] }, 0)).toBe(1);
      expect(await port.redrive(QUEUE, { error: "other" }, 0)).toBe(0);
      expect(await claimNames(port)).toEqual(["a", "c", "b"]);
    });

    test("leaves other queues alone", async () => {
      const { port } = await start();
      const id = await makeDead(port, { queue: "other" });
      expect(await port.redrive(QUEUE, {}, 0)).toBe(0);
      expect(await port.redrive(QUEUE, { ids: [id] }, 0)).toBe(0);
      expect(await stateOf(port, id)).toBe("dead");
    });

    test("at a rate brings one after another", async () => {
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

    test("brings back any number", async () => {
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

    test("is not held up by a full queue", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 1 });
      await makeDead(port);
      await addOne(port);
      expect(await port.redrive(QUEUE, {}, SECOND)).toBe(1);
      expect(await depths(port)).toEqual({ ready: 2 });
    });
  });
}
