import { describe, expect, test } from "vitest";
import { countClaimed, govern, workOff } from "./governing.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  depths,
  HOUR,
  isPending,
  joinWorker,
  MINUTE,
  nack,
  numbered,
  passLong,
  QUEUE,
  reject,
  release,
  SECOND,
  type Start,
  stateOf,
  waiting,
} from "./kit.ts";

export function concurrency(start: Start): void {
  describe("maxConcurrency of a queue", () => {
    test("maxConcurrency is never exceeded, with any number of claims", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxConcurrency: 3 });
      await addNamed(port, numbered(10));
      const first = await claim(port, { max: 2 });
      expect(await claim(port, { max: 5 })).toHaveLength(1);
      expect(await claim(port)).toEqual([]);
      await ack(port, first[0]!);
      expect(await claimNames(port)).toEqual(["3"]);
    });

    test("every way to end a claim lets the next task start", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxConcurrency: 1 });
      await addNamed(port, numbered(6));
      for (const end of [ack, reject, nack, release]) {
        const held = await claimOne(port);
        expect(await claim(port)).toEqual([]);
        await end(port, held);
      }
      expect(await countClaimed(port)).toBe(1);
    });

    test("the end of a task wakes a claim that waits for maxConcurrency", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { maxConcurrency: 1 });
      await addNamed(port, ["1", "2"]);
      const held = await claimOne(port);
      const next = waiting(port);
      expect(await isPending(clock, next)).toBe(true);
      await ack(port, held);
      expect(await next).toMatchObject([{ data: "2" }]);
    });

    test("the end of a lease makes room in maxConcurrency", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { maxConcurrency: 1, elsewhere: 0 });
      await addNamed(port, ["1", "2"]);
      await claimOne(port);
      const next = waiting(port);
      await clock.advance(30 * SECOND);
      expect(await next).toMatchObject([{ data: "1", attempt: 2 }]);
    });

    test("giving up a worker that hangs makes room in maxConcurrency", async () => {
      const { port, clock, hang } = await start();
      await port.declare(QUEUE, { maxConcurrency: 2, elsewhere: 0 });
      await addNamed(port, numbered(4));
      const worker = await joinWorker(port, "w");
      await worker.claim({ max: 2 });
      expect(await claim(port)).toEqual([]);
      hang();
      await clock.advance(31 * SECOND);
      expect(await claimNames(port)).toEqual(["0", "1"]);
    });

    test("a cancelled task counts in maxConcurrency until its worker ends the claim", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxConcurrency: 1 });
      await addNamed(port, ["1", "2"]);
      const held = await claimOne(port);
      await port.cancel(held.id);
      expect(await claim(port)).toEqual([]);
      await ack(port, held);
      expect(await claimNames(port)).toEqual(["2"]);
    });

    test("a queue at its maxConcurrency does not keep a claim from other queues", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxConcurrency: 1 });
      await addNamed(port, ["1", "2"]);
      await addNamed(port, ["other"], { queue: "other" });
      await claimOne(port);
      expect(await claimNames(port, { queues: [QUEUE, "other"] })).toEqual(["other"]);
    });

    test("maxConcurrency can be raised and removed", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxConcurrency: 1 });
      await addNamed(port, numbered(5));
      await claimOne(port);
      await port.declare(QUEUE, { maxConcurrency: 2 });
      expect(await claimNames(port)).toEqual(["1"]);
      await port.declare(QUEUE, { maxConcurrency: null });
      expect(await claimNames(port)).toEqual(["2", "3", "4"]);
    });
  });

  describe("concurrency of a group", () => {
    test("a group runs as many tasks as its concurrency, in the order of arrival", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 2 });
      await addNamed(port, numbered(5, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      expect(await claimNames(port)).toEqual(["a0", "a1", "b0", "b1"]);
      expect(await depths(port)).toEqual({ claimed: 4, waiting: 4 });
    });

    test("the end of one task promotes the next of its group", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 2 });
      await addNamed(port, numbered(4), { groupKey: "g" });
      const held = await claim(port, { max: 9 });
      await ack(port, held[1]!);
      expect(await claimNames(port)).toEqual(["2"]);
      await reject(port, held[0]!);
      expect(await claimNames(port)).toEqual(["3"]);
    });

    test("a task that waits for its next attempt does not count in its group's concurrency", async () => {
      const { port, clock } = await start();
      await govern(port, { concurrency: 2 });
      await addNamed(port, numbered(3), { groupKey: "g" });
      const lease = 2 * HOUR;
      const [first] = await claim(port, { max: 2, lease });
      await nack(port, first!, HOUR);
      const third = await claimOne(port, { lease });
      expect(third.data).toBe("2");
      await addNamed(port, ["3"], { groupKey: "g" });
      await passLong(clock, HOUR);
      await ack(port, third);
      // A retry keeps its position.
      expect(await claimNames(port)).toEqual(["0"]);
    });

    test("parked and verifying tasks do not count in their group's concurrency", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { verified: true });
      await govern(port, { concurrency: 2 });
      await addNamed(port, numbered(4), { groupKey: "g" });
      const [first, second] = await claim(port, { max: 9 });
      await port.settle(first!, { kind: "park", signal: "go", timeout: null });
      expect(await claimNames(port)).toEqual(["2"]);
      await ack(port, second!);
      expect(await claimNames(port)).toEqual(["3"]);
      expect(await depths(port)).toMatchObject({ parked: 1, verifying: 1, claimed: 2 });
    });

    test("tasks that return to their group get their positions back", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 2 });
      const [first] = await addNamed(port, numbered(4), { groupKey: "g" });
      const [held, other] = await claim(port, { max: 2 });
      await port.settle(held!, { kind: "park", signal: "go", timeout: null });
      await port.signal(first!, "go", null);
      expect(await stateOf(port, first!)).toBe("waiting");
      await ack(port, other!);
      expect(await claimNames(port)).toEqual(["0", "2"]);
    });

    test("a group keeps to its concurrency while tasks are added and end", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 3 });
      await addNamed(port, numbered(30), { groupKey: "g" });
      for (let i = 0; i < 10; i++) {
        const held = await claim(port, { max: 10 });
        expect(held).toHaveLength(3);
        const [one, two, three] = held;
        await nack(port, one!);
        await release(port, two!);
        await ack(port, three!);
        expect((await depths(port))["ready"]).toBe(3);
      }
    });

    test("a delayed task that becomes due counts in its group's concurrency", async () => {
      const { port, clock } = await start();
      await govern(port, { concurrency: 2 });
      await addOne(port, { groupKey: "g", data: "late", delay: MINUTE });
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await clock.advance(MINUTE);
      expect(await claimNames(port)).toEqual(["1", "2"]);
      expect(await depths(port)).toEqual({ claimed: 2, waiting: 1 });
    });

    test("a group with concurrency 1 is strictly ordered, also after the concurrency was higher", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 2 });
      await addNamed(port, numbered(5), { groupKey: "g" });
      const held = await claim(port, { max: 9 });
      await govern(port, { concurrency: 1 });
      await ack(port, held[0]!);
      expect(await claim(port)).toEqual([]);
      await ack(port, held[1]!);
      expect(await workOff(port, 3)).toEqual(["2", "3", "4"]);
      expect((await addOne(port, { groupKey: "g" })).state).toBe("ready");
    });

    test("group concurrency and maxConcurrency apply together", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 2 });
      await port.declare(QUEUE, { maxConcurrency: 3 });
      for (const key of ["a", "b", "c"]) await addNamed(port, numbered(3, key), { groupKey: key });
      expect(await claimNames(port)).toEqual(["a0", "a1", "b0"]);
    });
  });
}
