import { describe, expect, test } from "vitest";
import {
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
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

/** To so many hours past midnight, UTC. */
async function until({ clock }: World, hours: number): Promise<void> {
  const at = clock.read().wall % DAY;
  await passLong(clock, (hours * HOUR - at + 2 * DAY) % DAY || DAY);
}

export function windows(start: Start): void {
  describe("a queue's window", () => {
    test("keeps tasks from starting outside of it", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { window: NIGHT });
      await until(world, 12);
      await addNamed(port, numbered(3));
      expect(await claim(port)).toEqual([]);
      await until(world, 22);
      expect(await claimNames(port, { max: 1 })).toEqual(["0"]);
      await until(world, 5);
      expect(await claimNames(port, { max: 1 })).toEqual(["1"]);
      await until(world, 6);
      expect(await claim(port)).toEqual([]);
    });

    test("wakes a claim that waits, when it opens", async () => {
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

    test("is that of its time zone", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { window: { ...NIGHT, tz: "Asia/Tokyo" } });
      await addNamed(port, ["1"]);
      await until(world, 22);
      expect(await claim(port)).toEqual([]);
      await until(world, 13);
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("does not hold for urgent tasks", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { window: NIGHT });
      await until(world, 12);
      await addNamed(port, ["1"], { priority: 1_000 });
      await addNamed(port, ["now"], { urgent: true });
      expect(await claimNames(port)).toEqual(["now"]);
    });

    test("can be taken back", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { window: NIGHT });
      await until(world, 12);
      await addNamed(port, ["1"]);
      expect(await claim(port)).toEqual([]);
      await port.declare(QUEUE, { window: null });
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("lets what has started go on", async () => {
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

  describe("an urgent task", () => {
    test("comes before all others, and has its priority among its like", async () => {
      const { port } = await start();
      await addNamed(port, ["usual"], { priority: 1_000 });
      await addNamed(port, ["urgent"], { urgent: true, priority: -1_000 });
      await addNamed(port, ["first"], { urgent: true });
      expect(await claimNames(port)).toEqual(["first", "urgent", "usual"]);
    });

    test("is shown as what it is", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { urgent: true, priority: 7, cost: 12 });
      expect(await port.task(id)).toMatchObject({ urgent: true, priority: 7, cost: 12 });
      expect(await claimOne(port)).toMatchObject({ priority: 7, cost: 12 });
      expect(await port.task(id)).toMatchObject({ urgent: true, priority: 7, cost: 12, state: "claimed" });
      const plain = await addOne(port);
      expect(await port.task(plain.id)).toMatchObject({ urgent: false, cost: 1 });
    });

    test("waits behind the head of its group", async () => {
      const { port } = await start();
      await addNamed(port, ["1"], { groupKey: "g" });
      await addNamed(port, ["2"], { groupKey: "g", urgent: true });
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("keeps its place when it is tried again, released, or redriven", async () => {
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

    test("is urgent or not", async () => {
      const { port } = await start();
      await refused(() => addOne(port, { urgent: "yes" as never }), "INVALID", "urgent");
      await refused(() => addOne(port, { cost: -1 }), "INVALID", "cost");
    });
  });
}
