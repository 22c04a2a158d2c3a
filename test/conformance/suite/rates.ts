import { describe, expect, test } from "vitest";
import { govern, rate } from "./governing.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  depths,
  failure,
  HOUR,
  isPending,
  MINUTE,
  newTask,
  numbered,
  QUEUE,
  SECOND,
  type Start,
  waiting,
  type World,
} from "./kit.ts";

const TOKENS = { unit: "tokens" };

/** Lets the rest of the current span pass, so that a case begins with a whole one. */
async function nextWindow({ clock }: World, per: number): Promise<void> {
  await clock.advance(per - (clock.read().wall % per));
}

export function rates(start: Start): void {
  describe("rate limit of a queue", () => {
    test("a rate limit lets only its number of tasks start in a span", async () => {
      const world = await start();
      const { port, clock } = world;
      await port.declare(QUEUE, { rateLimit: [rate(3, MINUTE)] });
      await addNamed(port, numbered(8));
      await nextWindow(world, MINUTE);
      expect(await claimNames(port)).toEqual(["0", "1", "2"]);
      await clock.advance(MINUTE - 1);
      expect(await claim(port)).toEqual([]);
      await clock.advance(1);
      expect(await claimNames(port, { max: 2 })).toEqual(["0", "1"]);
    });

    test("a rate limit counts every start, however the task ends", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { rateLimit: [rate(3, MINUTE)] });
      await addNamed(port, numbered(8));
      await nextWindow(world, MINUTE);
      for (let i = 0; i < 3; i++) await ack(port, await claimOne(port));
      expect(await claim(port)).toEqual([]);
    });

    test("a waiting claim wakes when the next span begins", async () => {
      const world = await start();
      const { port, clock } = world;
      await port.declare(QUEUE, { rateLimit: [rate(1, 10 * SECOND)] });
      await addNamed(port, numbered(3));
      await nextWindow(world, 10 * SECOND);
      await ack(port, await claimOne(port));
      const next = waiting(port);
      await clock.advance(10 * SECOND - 1);
      expect(await isPending(clock, next)).toBe(true);
      await clock.advance(1);
      expect(await next).toMatchObject([{ data: "1" }]);
    });

    test("several rate limits apply exactly at the same time", async () => {
      const world = await start();
      const { port, clock } = world;
      await port.declare(QUEUE, { rateLimit: [rate(2, SECOND), rate(3, MINUTE)] });
      await addNamed(port, numbered(8));
      await nextWindow(world, MINUTE);
      expect(await claimNames(port, { lease: HOUR })).toEqual(["0", "1"]);
      await clock.advance(SECOND);
      expect(await claimNames(port, { lease: HOUR })).toEqual(["2"]);
      await clock.advance(30 * SECOND);
      expect(await claim(port)).toEqual([]);
      await clock.advance(30 * SECOND);
      expect(await claimNames(port)).toEqual(["3", "4"]);
    });

    test("a paced rate limit spreads the starts over the span", async () => {
      const world = await start();
      const { port, clock } = world;
      await port.declare(QUEUE, { rateLimit: [rate(4, MINUTE, { pace: true })] });
      await addNamed(port, numbered(4));
      const seen: string[] = [];
      for (let i = 0; i < 4; i++) {
        const held = await claim(port, { max: 9 });
        expect(held).toHaveLength(1);
        seen.push(held[0]!.data as string);
        await ack(port, held[0]!);
        await clock.advance(15 * SECOND - 1);
        expect(await claim(port)).toEqual([]);
        await clock.advance(1);
      }
      expect(seen).toEqual(numbered(4));
    });

    test("a rate limit can be removed", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { rateLimit: [rate(1, HOUR)] });
      await addNamed(port, numbered(4));
      await claimOne(port);
      await port.declare(QUEUE, { rateLimit: [] });
      expect(await claimNames(port)).toEqual(["1", "2", "3"]);
    });

    test("a rate limit does not affect other queues", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { rateLimit: [rate(1, HOUR)] });
      await addNamed(port, numbered(4));
      await addNamed(port, ["other"], { queue: "other" });
      await claimOne(port);
      expect(await claimNames(port, { queues: [QUEUE, "other"] })).toEqual(["other"]);
    });

    test("an expired task does not count in a rate limit", async () => {
      const world = await start();
      const { port, clock } = world;
      await port.declare(QUEUE, { rateLimit: [rate(1, MINUTE)] });
      await nextWindow(world, MINUTE);
      await addNamed(port, ["old"], { ttl: SECOND });
      await addNamed(port, ["new"]);
      clock.sleep(2 * SECOND);
      const seen = [...(await claimNames(port)), ...(await claimNames(port))];
      expect(seen).toEqual(["new"]);
    });
  });

  describe("rate limit of a group", () => {
    test("a group rate limit applies to each group separately, and not to tasks without a group", async () => {
      const world = await start();
      const { port, clock } = world;
      await govern(port, { concurrency: 9, rateLimit: [rate(2, MINUTE)] });
      await nextWindow(world, MINUTE);
      for (const key of ["a", "b"]) await addNamed(port, numbered(3, key), { groupKey: key });
      await addNamed(port, numbered(3, "free"));
      const seen = await claimNames(port, { lease: HOUR });
      expect(seen.toSorted()).toEqual(["a0", "a1", "b0", "b1", "free0", "free1", "free2"]);
      expect(await depths(port)).toEqual({ claimed: 7, waiting: 2 });
      await clock.advance(MINUTE);
      expect(await claimNames(port)).toEqual(["a2", "b2"]);
    });

    test("a waiting claim wakes when the group's next span begins", async () => {
      const world = await start();
      const { port, clock } = world;
      await govern(port, { rateLimit: [rate(1, 10 * SECOND)] });
      await nextWindow(world, 10 * SECOND);
      await addNamed(port, numbered(2), { groupKey: "g" });
      await ack(port, await claimOne(port));
      const next = waiting(port);
      await clock.advance(10 * SECOND - 1);
      expect(await isPending(clock, next)).toBe(true);
      await clock.advance(1);
      expect(await next).toMatchObject([{ data: "1" }]);
    });

    test("a retry counts as another start in the group's rate limit", async () => {
      const world = await start();
      const { port } = world;
      await govern(port, { rateLimit: [rate(1, MINUTE)] });
      await nextWindow(world, MINUTE);
      await addNamed(port, ["1"], { groupKey: "g" });
      await port.settle(await claimOne(port), { kind: "nack", error: failure(), delay: 0 });
      expect(await claim(port)).toEqual([]);
      expect(await depths(port)).toEqual({ waiting: 1 });
    });

    test("a group rate limit is remembered while the group is empty", async () => {
      const world = await start();
      const { port } = world;
      await govern(port, { rateLimit: [rate(1, MINUTE)] });
      await nextWindow(world, MINUTE);
      await addNamed(port, ["1"], { groupKey: "g" });
      await ack(port, await claimOne(port));
      expect((await addOne(port, { groupKey: "g" })).state).toBe("waiting");
    });

    test("a paced group rate limit spreads the starts of each group", async () => {
      const { port, clock } = await start();
      await govern(port, { concurrency: 9, rateLimit: [rate(2, MINUTE, { pace: true })] });
      for (const key of ["a", "b"]) await addNamed(port, numbered(2, key), { groupKey: key });
      expect(await claimNames(port, { lease: HOUR })).toEqual(["a0", "b0"]);
      await clock.advance(30 * SECOND - 1);
      expect(await claim(port)).toEqual([]);
      await clock.advance(1);
      expect(await claimNames(port)).toEqual(["a1", "b1"]);
    });
  });

  describe("rate limit with a unit", () => {
    test("the costs of tasks use up a rate limit with a unit", async () => {
      const world = await start();
      const { port, clock } = world;
      await port.declare(QUEUE, { rateLimit: [rate(1_000, MINUTE, TOKENS)] });
      await nextWindow(world, MINUTE);
      await port.add([400, 500, 200, 10].map((cost) => newTask({ data: `${cost}`, cost })));
      // The third task does not fit, and no smaller one may overtake it: otherwise a large one would never start.
      expect(await claimNames(port, { lease: HOUR })).toEqual(["400", "500"]);
      await clock.advance(MINUTE);
      expect(await claimNames(port)).toEqual(["200", "10"]);
    });

    test("a task that costs more than the limit starts as the only one in a span", async () => {
      const world = await start();
      const { port, clock } = world;
      await port.declare(QUEUE, { rateLimit: [rate(100, MINUTE, TOKENS)] });
      await nextWindow(world, MINUTE);
      await port.add([newTask({ data: "huge", cost: 5_000 }), newTask({ data: "small", cost: 1 })]);
      expect(await claimNames(port, { lease: HOUR })).toEqual(["huge"]);
      await clock.advance(MINUTE);
      expect(await claimNames(port)).toEqual(["small"]);
    });

    test("unspent cost is given back, and wakes a waiting claim", async () => {
      const world = await start();
      const { port, clock } = world;
      await port.declare(QUEUE, { rateLimit: [rate(100, MINUTE, TOKENS)] });
      await nextWindow(world, MINUTE);
      await port.add([newTask({ data: "1", cost: 80 }), newTask({ data: "2", cost: 80 })]);
      const held = await claimOne(port);
      expect(held.cost).toBe(80);
      const next = waiting(port);
      expect(await isPending(clock, next)).toBe(true);
      await port.settle(held, { kind: "ack", result: null, spent: 15 });
      expect(await next).toMatchObject([{ data: "2" }]);
    });

    test("cost spent in excess is charged", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { rateLimit: [rate(100, MINUTE, TOKENS)] });
      await nextWindow(world, MINUTE);
      await port.add(numbered(3).map((data) => newTask({ data, cost: 10 })));
      await port.settle(await claimOne(port), { kind: "ack", result: null, spent: 95 });
      expect(await claim(port)).toEqual([]);
    });

    test("a limit with a unit and a limit of starts apply together", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { rateLimit: [rate(2, MINUTE), rate(1_000, MINUTE, TOKENS)] });
      await nextWindow(world, MINUTE);
      await port.add(numbered(4).map((data) => newTask({ data, cost: 10 })));
      expect(await claimNames(port)).toEqual(["0", "1"]);
    });

    test("a group rate limit may have a unit", async () => {
      const world = await start();
      const { port } = world;
      await govern(port, { concurrency: 5, rateLimit: [rate(100, MINUTE, TOKENS)] });
      await nextWindow(world, MINUTE);
      for (const groupKey of ["a", "b"])
        await port.add(numbered(3, groupKey).map((data) => newTask({ data, groupKey, cost: 60 })));
      const held = await claim(port, { max: 9 });
      expect(held.map(({ data }) => data)).toEqual(["a0", "b0"]);
      await port.settle(held[0]!, { kind: "ack", result: null, spent: 20 });
      expect(await claimNames(port)).toEqual(["a1"]);
    });
  });

  describe("hold: another system's limit was met", () => {
    test("a hold stops a whole group, and the attempt does not count", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await addNamed(port, ["free"]);
      const held = await claimOne(port);
      const state = await port.settle(held, { kind: "hold", error: failure("429"), delay: 30 * SECOND });
      expect(state).toEqual({ state: "waiting" });
      expect(await claimNames(port, { lease: HOUR })).toEqual(["free"]);
      await addNamed(port, ["3"], { groupKey: "g" });
      await clock.advance(30 * SECOND - 1);
      expect(await claim(port)).toEqual([]);
      await clock.advance(1);
      expect(await claimOne(port)).toMatchObject({ data: "1", attempt: 1 });
      expect(await port.history(held.id)).toMatchObject([
        { attempt: 1, outcome: "limited", error: { message: "429" } },
      ]);
    });

    test("a hold removes the tasks of the group from the line", async () => {
      const { port, clock } = await start();
      await govern(port, { concurrency: 3 });
      await addNamed(port, numbered(5), { groupKey: "g" });
      await addNamed(port, ["other"], { groupKey: "h" });
      const held = await claimOne(port);
      await port.settle(held, { kind: "hold", error: failure("429"), delay: MINUTE });
      expect(await claimNames(port, { lease: HOUR })).toEqual(["other"]);
      expect(await depths(port)).toEqual({ claimed: 1, waiting: 5 });
      await clock.advance(MINUTE);
      expect(await claimNames(port)).toEqual(["0", "1", "2"]);
    });

    test("a hold of a task without a group stops the whole queue", async () => {
      const { port, clock } = await start();
      await addNamed(port, numbered(3));
      await port.settle(await claimOne(port), { kind: "hold", error: failure("429"), delay: 30 * SECOND });
      expect(await claim(port)).toEqual([]);
      const woken = waiting(port, { max: 9 });
      await clock.advance(30 * SECOND - 1);
      expect(await isPending(clock, woken)).toBe(true);
      await clock.advance(1);
      expect((await woken).map(({ data }) => data)).toEqual(["0", "1", "2"]);
    });

    test("the end of a hold wakes a waiting claim", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1"], { groupKey: "g" });
      await port.settle(await claimOne(port), { kind: "hold", error: failure("429"), delay: 10 * SECOND });
      const next = waiting(port);
      await clock.advance(10 * SECOND - 1);
      expect(await isPending(clock, next)).toBe(true);
      await clock.advance(1);
      expect(await next).toMatchObject([{ data: "1" }]);
    });

    test("a hold by a task that was cancelled meanwhile frees its group", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      const held = await claimOne(port);
      await port.cancel(held.id);
      expect(await port.settle(held, { kind: "hold", error: failure(), delay: MINUTE })).toEqual({
        state: "cancelled",
      });
      expect(await claimNames(port)).toEqual(["2"]);
      await clock.advance(0);
    });
  });
}
