import { describe, expect, test } from "vitest";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  HOUR,
  isPending,
  MINUTE,
  QUEUE,
  refused,
  SECOND,
  type Start,
  stateOf,
  waiting,
} from "./kit.ts";

export function leases(start: Start): void {
  describe("a claim by hand", () => {
    test("lasts as long as its queue's lease, to the millisecond", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { lease: 10 * SECOND });
      await addOne(port);
      const held = await claimOne(port);
      await clock.advance(10 * SECOND - 1);
      expect(await claim(port)).toEqual([]);
      await clock.advance(1);
      expect(await claimOne(port)).toMatchObject({ id: held.id, attempt: 2 });
    });

    test("may be given a lease of its own", async () => {
      const { port, clock } = await start();
      await addOne(port);
      const held = await claimOne(port, { lease: 2 * MINUTE });
      await clock.advance(2 * MINUTE - 1);
      expect(await stateOf(port, held.id)).toBe("claimed");
      expect(await ack(port, held)).toBe("done");
    });

    test("is lost even if nobody asks", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      await claimOne(port);
      await clock.advance(30 * SECOND);
      expect(await stateOf(port, id)).toBe("ready");
    });

    test("can be extended, counted from then", async () => {
      const { port, clock } = await start();
      await addOne(port);
      const held = await claimOne(port);
      await clock.advance(20 * SECOND);
      await port.extend(held, 30 * SECOND);
      await clock.advance(30 * SECOND - 1);
      expect(await claim(port)).toEqual([]);
      await clock.advance(1);
      expect((await claimOne(port)).attempt).toBe(2);
    });

    test("can be made shorter, too", async () => {
      const { port, clock } = await start();
      await addOne(port);
      const held = await claimOne(port, { lease: HOUR });
      const next = waiting(port);
      await port.extend(held, SECOND);
      expect(await isPending(clock, next)).toBe(true);
      await clock.advance(SECOND);
      expect(await next).toHaveLength(1);
    });

    test("can be extended any number of times", async () => {
      const { port, clock } = await start();
      await addOne(port);
      const held = await claimOne(port);
      for (let times = 0; times < 10; times++) {
        await clock.advance(29 * SECOND);
        await port.extend(held, 30 * SECOND);
      }
      expect(await ack(port, held)).toBe("done");
    });
  });

  describe("a lost lease", () => {
    test("counts as a failure, and is retried without backoff", async () => {
      const { port, clock, startedAt } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port, { worker: "gone" });
      await clock.advance(30 * SECOND);
      expect(await port.task(id)).toMatchObject({ state: "ready", attempt: 2, dueAt: null, worker: null });
      expect(await port.history(id)).toMatchObject([
        {
          attempt: 1,
          fence: held.fence,
          worker: "gone",
          startedAt,
          endedAt: startedAt + 30 * SECOND,
          outcome: "lost",
          error: { name: "LeaseLost", message: expect.stringContaining("gone") as string },
        },
      ]);
    });

    test("on the last attempt is the task's death", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { maxAttempts: 2 });
      const end = port.end(id);
      for (const attempt of [1, 2]) {
        expect((await claimOne(port)).attempt).toBe(attempt);
        await clock.advance(30 * SECOND);
      }
      expect(await end).toMatchObject({ state: "dead", error: { name: "LeaseLost" } });
    });

    test("leaves a task its place", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1", "2"]);
      await claimOne(port);
      await clock.advance(30 * SECOND);
      expect(await claimNames(port)).toEqual(["1", "2"]);
    });

    test("is not mended by a late word", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await clock.advance(30 * SECOND);
      await refused(() => port.extend(held, MINUTE), "CLAIM_LOST");
      await refused(() => ack(port, held, "late"), "CLAIM_LOST");
      expect(await port.task(id)).toMatchObject({ state: "ready", result: null });
    });

    test("is one of many at once", async () => {
      const { port, clock } = await start();
      const names = Array.from({ length: 2_500 }, (_, index) => `${index}`);
      await addNamed(port, names);
      for (let taken = 0; taken < 2_500; taken += 1_000) await claim(port, { max: 1_000 });
      await clock.advance(31 * SECOND);
      const again = [];
      for (let taken = 0; taken < 2_500; taken += 500) again.push(...(await claimNames(port, { max: 500 })));
      expect(again).toEqual(names);
    });
  });
}
