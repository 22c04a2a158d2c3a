import { describe, expect, test } from "vitest";
import { govern } from "./governing.ts";
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
  MINUTE,
  numbered,
  passLong,
  QUEUE,
  refused,
  type Start,
  waiting,
  type World,
} from "./kit.ts";

const NIGHT = { hours: "22:00-06:00", tz: "UTC" };
const DAY = 24 * HOUR;

/** Advances to this many hours past midnight, UTC. */
async function until({ clock }: World, hours: number): Promise<void> {
  const at = clock.read().wall % DAY;
  await passLong(clock, (hours * HOUR - at + 2 * DAY) % DAY || DAY);
}

export function windows(start: Start): void {
  describe("window of a queue", () => {
    test("tasks start only within the window", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { window: NIGHT });
      await until(world, 12);
      await addNamed(port, numbered(3));
      expect(await claim(port)).toEqual([]);
      await until(world, 22);
      expect(await claimNames(port, { max: 1, lease: DAY })).toEqual(["0"]);
      await until(world, 5);
      expect(await claimNames(port, { max: 1, lease: DAY })).toEqual(["1"]);
      await until(world, 6);
      expect(await claim(port)).toEqual([]);
    });

    test("the opening of a window wakes a waiting claim", async () => {
      const world = await start();
      const { port, clock } = world;
      await port.declare(QUEUE, { window: NIGHT });
      await addNamed(port, ["1"]);
      await until(world, 22 - 1 / 120);
      const next = waiting(port);
      await clock.advance(MINUTE / 2 - 1);
      expect(await isPending(clock, next)).toBe(true);
      await clock.advance(1);
      expect(await next).toMatchObject([{ data: "1" }]);
    });

    test("a window follows its time zone", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { window: { ...NIGHT, tz: "Asia/Tokyo" } });
      await addNamed(port, ["1"]);
      await until(world, 22);
      expect(await claim(port)).toEqual([]);
      await until(world, 13);
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("urgent tasks ignore the window", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { window: NIGHT });
      await until(world, 12);
      await addNamed(port, ["1"], { priority: 1_000 });
      await addNamed(port, ["now"], { urgent: true });
      expect(await claimNames(port)).toEqual(["now"]);
    });

    test("a window can be removed", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { window: NIGHT });
      await until(world, 12);
      await addNamed(port, ["1"]);
      expect(await claim(port)).toEqual([]);
      await port.declare(QUEUE, { window: null });
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("a task that has started continues outside the window", async () => {
      const world = await start();
      const { port, clock } = world;
      await port.declare(QUEUE, { window: NIGHT });
      await until(world, 6 - 1 / 360);
      await addNamed(port, ["1"]);
      const held = await claimOne(port);
      await clock.advance(11_000);
      expect(await port.settle(held, { kind: "ack", result: null })).toEqual({ state: "done" });
    });
  });

  describe("urgent tasks", () => {
    test("urgent tasks come first, and have priorities among themselves", async () => {
      const { port } = await start();
      await addNamed(port, ["usual"], { priority: 1_000 });
      await addNamed(port, ["urgent"], { urgent: true, priority: -1_000 });
      await addNamed(port, ["first"], { urgent: true });
      expect(await claimNames(port)).toEqual(["first", "urgent", "usual"]);
    });

    test("a task shows that it is urgent", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { urgent: true, priority: 7, cost: 12 });
      expect(await port.task(id)).toMatchObject({ urgent: true, priority: 7, cost: 12 });
      expect(await claimOne(port)).toMatchObject({ priority: 7, cost: 12 });
      expect(await port.task(id)).toMatchObject({ urgent: true, priority: 7, cost: 12, state: "claimed" });
      const plain = await addOne(port);
      expect(await port.task(plain.id)).toMatchObject({ urgent: false, cost: 1 });
    });

    test("an urgent task waits behind the head of its group", async () => {
      const { port } = await start();
      await addNamed(port, ["1"], { groupKey: "g" });
      await addNamed(port, ["2"], { groupKey: "g", urgent: true });
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("an urgent task keeps its position when it is retried, released, or redriven", async () => {
      const { port } = await start();
      await addNamed(port, ["usual"]);
      const [id] = await addNamed(port, ["now"], { urgent: true });
      const held = await claimOne(port);
      await port.settle(held, { kind: "release", started: true });
      const again = await claimOne(port);
      expect(again.id).toBe(id);
      await port.settle(again, { kind: "reject", error: { name: "E", message: "m", stack: null } });
      await port.redrive(QUEUE, {}, 0);
      expect((await claimOne(port)).id).toBe(id);
    });

    test("urgent must be a boolean", async () => {
      const { port } = await start();
      await refused(() => addOne(port, { urgent: "yes" as never }), "INVALID", "urgent");
      await refused(() => addOne(port, { cost: -1 }), "INVALID", "cost");
    });
  });

  describe("urgent tasks of a group", () => {
    test("an urgent task is the first of its group to enter the line if the group's concurrency is higher than 1", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 2 });
      await addNamed(port, numbered(4), { groupKey: "g" });
      const held = await claim(port, { max: 9 });
      await addNamed(port, ["urgent 1", "urgent 2"], { groupKey: "g", urgent: true });
      await ack(port, held[0]!);
      expect(await claimNames(port)).toEqual(["urgent 1"]);
      await ack(port, held[1]!);
      const last = await claimOne(port);
      expect(last.data).toBe("urgent 2");
      await ack(port, last);
      expect(await claimNames(port)).toEqual(["2"]);
    });

    test("urgent tasks of a group are promoted before the others", async () => {
      const { port } = await start();
      await addNamed(port, numbered(2), { groupKey: "g" });
      await addNamed(port, ["urgent 1"], { groupKey: "g", urgent: true });
      await addNamed(port, ["3"], { groupKey: "g" });
      await addNamed(port, ["urgent 2"], { groupKey: "g", urgent: true });
      await claimOne(port);
      await govern(port, { concurrency: 4 });
      expect(await depths(port)).toEqual({ claimed: 1, ready: 3, waiting: 1 });
      expect(await claimNames(port)).toEqual(["urgent 1", "urgent 2", "1"]);
      await govern(port, { concurrency: 5 });
      expect(await claimNames(port)).toEqual(["3"]);
    });

    test("an urgent task takes the next turn of its fair group", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 9, fair: true });
      for (const key of ["a", "b"]) await addNamed(port, numbered(3, key), { groupKey: key });
      await addNamed(port, ["urgent"], { groupKey: "b", urgent: true });
      expect(await claimNames(port, { max: 2 })).toEqual(["a0", "b0"]);
      expect(await claimNames(port, { max: 1 })).toEqual(["urgent"]);
    });

    test("an urgent task of an ordered group waits for earlier ones, and then ignores the window", async () => {
      const world = await start();
      const { port } = world;
      await until(world, 23);
      await port.declare(QUEUE, { window: NIGHT });
      await addNamed(port, ["1"], { groupKey: "g" });
      await addNamed(port, ["urgent"], { groupKey: "g", urgent: true });
      const held = await claimOne(port, { lease: DAY });
      expect(await claim(port)).toEqual([]);
      await until(world, 12);
      await ack(port, held);
      expect(await claimNames(port)).toEqual(["urgent"]);
    });
  });
}
