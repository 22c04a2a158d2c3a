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
  describe("the lease of a manual claim", () => {
    test("a manual claim lasts exactly as long as its queue's lease", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { lease: 10 * SECOND });
      await addOne(port);
      const held = await claimOne(port);
      await clock.advance(10 * SECOND - 1);
      expect(await claim(port)).toEqual([]);
      await clock.advance(1);
      expect(await claimOne(port)).toMatchObject({ id: held.id, attempt: 2 });
    });

    test("a manual claim may have its own lease", async () => {
      const { port, clock } = await start();
      await addOne(port);
      const held = await claimOne(port, { lease: 2 * MINUTE });
      await clock.advance(2 * MINUTE - 1);
      expect(await stateOf(port, held.id)).toBe("claimed");
      expect(await ack(port, held)).toBe("done");
    });

    test("an expired claim is lost even if no call is made", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      await claimOne(port);
      await clock.advance(30 * SECOND);
      expect(await stateOf(port, id)).toBe("ready");
    });

    test("extending a claim counts from the time of the call", async () => {
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

    test("extending a claim may make its lease shorter", async () => {
      const { port, clock } = await start();
      await addOne(port);
      const held = await claimOne(port, { lease: HOUR });
      const next = waiting(port);
      await port.extend(held, SECOND);
      expect(await isPending(clock, next)).toBe(true);
      await clock.advance(SECOND);
      expect(await next).toHaveLength(1);
    });

    test("a claim can be extended any number of times", async () => {
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

  describe("losing a lease", () => {
    test("a lost lease counts as a failure, and is retried without backoff", async () => {
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

    test("a lost lease on the last attempt makes the task dead", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { maxAttempts: 2 });
      const end = port.end(id);
      for (const attempt of [1, 2]) {
        expect((await claimOne(port)).attempt).toBe(attempt);
        await clock.advance(30 * SECOND);
      }
      expect(await end).toMatchObject({ state: "dead", error: { name: "LeaseLost" } });
    });

    test("a task keeps its position after a lost lease", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1", "2"]);
      await claimOne(port);
      await clock.advance(30 * SECOND);
      expect(await claimNames(port)).toEqual(["1", "2"]);
    });

    test("extending or settling after the lease ended is refused", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await clock.advance(30 * SECOND);
      await refused(() => port.extend(held, MINUTE), "CLAIM_LOST");
      await refused(() => ack(port, held, "late"), "CLAIM_LOST");
      expect(await port.task(id)).toMatchObject({ state: "ready", result: null });
    });

    test("thousands of leases can be lost at once", async () => {
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
