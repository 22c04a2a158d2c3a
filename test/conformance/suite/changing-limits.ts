import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import type { ClaimedTask } from "../../../src/core/task/task.ts";
import { govern, rate, workOff } from "./governing.ts";
import {
  ack,
  addNamed,
  claim,
  claimNames,
  claimOne,
  depths,
  HOUR,
  isPending,
  MINUTE,
  nack,
  newTask,
  numbered,
  QUEUE,
  type Start,
  waiting,
  type World,
} from "./kit.ts";

/** More groups than one sweep processes. */
const MANY_GROUPS = 1_100;

async function nextWindow({ clock }: World, per: number): Promise<void> {
  await clock.advance(per - (clock.read().wall % per));
}

/** Claims everything that may start. */
async function claimAll(port: Port): Promise<ClaimedTask[]> {
  const all: ClaimedTask[] = [];
  for (;;) {
    const tasks = await claim(port, { max: 1_000, lease: HOUR });
    if (tasks.length === 0) return all;
    all.push(...tasks);
  }
}

export function changingLimits(start: Start): void {
  describe("raising or removing a group limit", () => {
    test("raising group concurrency lets waiting tasks start at once", async () => {
      const { port } = await start();
      await addNamed(port, numbered(5), { groupKey: "g" });
      await claimOne(port);
      await govern(port, { concurrency: 3 });
      expect(await depths(port)).toEqual({ claimed: 1, ready: 2, waiting: 2 });
      expect(await claimNames(port)).toEqual(["1", "2"]);
      await govern(port, { concurrency: 5 });
      expect(await claimNames(port)).toEqual(["3", "4"]);
    });

    test("raising a group limit wakes waiting claims", async () => {
      const { port, clock } = await start();
      await addNamed(port, numbered(2), { groupKey: "g" });
      await claimOne(port);
      const next = waiting(port);
      expect(await isPending(clock, next)).toBe(true);
      await govern(port, { concurrency: 2 });
      expect(await next).toMatchObject([{ data: "1" }]);
    });

    test("raising or removing a group rate lets waiting tasks start", async () => {
      const { port, clock } = await start();
      await govern(port, { concurrency: 9, rateLimit: [rate(1, HOUR)] });
      await addNamed(port, numbered(5), { groupKey: "g" });
      await claimOne(port);
      const next = waiting(port, { max: 9 });
      expect(await isPending(clock, next)).toBe(true);
      await govern(port, { concurrency: 9, rateLimit: [rate(3, HOUR)] });
      expect((await next).map(({ data }) => data)).toEqual(["1", "2"]);
      await govern(port, { concurrency: 9 });
      expect(await claimNames(port)).toEqual(["3", "4"]);
    });

    test("changing weights or ending the fair rotation puts more tasks into the line", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 9, fair: true });
      for (const key of ["a", "b"]) await addNamed(port, numbered(5, key), { groupKey: key });
      expect(await depths(port)).toEqual({ ready: 2, waiting: 8 });
      await govern(port, { concurrency: 9, fair: true, weight: { a: 3 } });
      expect(await depths(port)).toEqual({ ready: 4, waiting: 6 });
      await govern(port, { concurrency: 9 });
      expect(await depths(port)).toEqual({ ready: 10 });
    });

    test("a raised group limit reaches more groups than one sweep processes", async () => {
      const { port } = await start();
      const keys = numbered(MANY_GROUPS, "g");
      for (const data of ["first", "second"])
        await port.add(keys.map((groupKey) => newTask({ groupKey, data })));
      expect(await depths(port)).toEqual({ ready: MANY_GROUPS, waiting: MANY_GROUPS });
      await claimAll(port);
      const next = waiting(port, { max: 1_000 });
      await govern(port, { concurrency: 2 });
      expect((await next).length).toBeGreaterThan(0);
      await claimAll(port);
      expect(await depths(port)).toEqual({ claimed: 2 * MANY_GROUPS });
    });
  });

  describe("lowering a group limit", () => {
    test("lowering group concurrency removes tasks above it from the line", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 5 });
      await addNamed(port, numbered(6), { groupKey: "g" });
      const held = await claimOne(port);
      await govern(port, { concurrency: 1 });
      expect(await depths(port)).toEqual({ claimed: 1, waiting: 5 });
      expect(await claim(port)).toEqual([]);
      await ack(port, held);
      expect(await workOff(port, 5)).toEqual(["1", "2", "3", "4", "5"]);
    });

    test("lowering group concurrency leaves tasks that may start at their positions", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 5 });
      await addNamed(port, numbered(5), { groupKey: "g" });
      await addNamed(port, ["free"]);
      await govern(port, { concurrency: 2 });
      expect(await depths(port)).toEqual({ ready: 3, waiting: 3 });
      expect(await claimNames(port)).toEqual(["0", "1", "free"]);
    });

    test("a lowered limit also applies to tasks that return to the line", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 3 });
      await addNamed(port, numbered(4), { groupKey: "g" });
      const [first, second, third] = await claim(port, { max: 3 });
      await govern(port, { concurrency: 1 });
      await nack(port, first!);
      expect(await claim(port)).toEqual([]);
      await nack(port, second!);
      expect(await claim(port)).toEqual([]);
      await ack(port, third!);
      expect(await workOff(port, 3)).toEqual(["0", "1", "3"]);
    });

    test("a lowered group rate applies to the current window", async () => {
      const world = await start();
      const { port, clock } = world;
      await govern(port, { concurrency: 9, rateLimit: [rate(5, MINUTE)] });
      await nextWindow(world, MINUTE);
      await addNamed(port, numbered(6), { groupKey: "g" });
      await claim(port, { max: 3, lease: HOUR });
      await govern(port, { concurrency: 9, rateLimit: [rate(2, MINUTE)] });
      expect(await claim(port)).toEqual([]);
      await clock.advance(MINUTE);
      expect(await claimNames(port)).toEqual(["3", "4"]);
    });

    test("a new group rate limits tasks that are already in the line", async () => {
      const world = await start();
      const { port } = world;
      await govern(port, { concurrency: 9 });
      await addNamed(port, numbered(6), { groupKey: "g" });
      await nextWindow(world, MINUTE);
      await govern(port, { concurrency: 9, rateLimit: [rate(2, MINUTE)] });
      expect(await claimNames(port)).toEqual(["0", "1"]);
    });

    test("starting a fair rotation reorders tasks that are already in the line", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 9 });
      for (const key of ["a", "b"]) await addNamed(port, numbered(3, key), { groupKey: key });
      await govern(port, { concurrency: 9, fair: true });
      expect(await claimNames(port)).toEqual(["a0", "b0", "a1", "b1", "a2", "b2"]);
    });

    test("no task starts above a lowered group limit, with any number of groups", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 2 });
      const keys = numbered(MANY_GROUPS, "g");
      for (const data of ["first", "second"])
        await port.add(keys.map((groupKey) => newTask({ groupKey, data })));
      await govern(port, { concurrency: 1 });
      const held = await claimAll(port);
      expect(held.map(({ data }) => data)).not.toContain("second");
      expect(await depths(port)).toEqual({ claimed: MANY_GROUPS, waiting: MANY_GROUPS });
    });
  });

  describe("raising or removing a queue limit", () => {
    test("raising maxConcurrency wakes waiting claims", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { maxConcurrency: 1 });
      await addNamed(port, numbered(3));
      await claimOne(port);
      const next = waiting(port);
      expect(await isPending(clock, next)).toBe(true);
      await port.declare(QUEUE, { maxConcurrency: 2 });
      expect(await next).toMatchObject([{ data: "1" }]);
      const last = waiting(port);
      await port.declare(QUEUE, { maxConcurrency: null });
      expect(await last).toMatchObject([{ data: "2" }]);
    });

    test("raising a rate wakes waiting claims", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { rateLimit: [rate(1, HOUR)] });
      await addNamed(port, numbered(3));
      await claimOne(port);
      const next = waiting(port, { max: 2 });
      expect(await isPending(clock, next)).toBe(true);
      await port.declare(QUEUE, { rateLimit: [rate(2, HOUR)] });
      expect(await next).toMatchObject([{ data: "1" }]);
      const last = waiting(port);
      await port.declare(QUEUE, { rateLimit: [] });
      expect(await last).toMatchObject([{ data: "2" }]);
    });

    test("removing a window wakes waiting claims", async () => {
      const { port, clock } = await start();
      const hour = new Date(clock.read().wall).getUTCHours();
      const hours = [6, 7].map((ahead) => `${(hour + ahead) % 24}`.padStart(2, "0") + ":00").join("-");
      await port.declare(QUEUE, { window: { hours, tz: "UTC" } });
      await addNamed(port, ["1"]);
      const next = waiting(port);
      expect(await isPending(clock, next)).toBe(true);
      await port.declare(QUEUE, { window: null });
      expect(await next).toMatchObject([{ data: "1" }]);
    });
  });

  describe("changing a list of rate limits", () => {
    const tokens = rate(100, MINUTE, { unit: "tokens" });

    test("each limit of a queue keeps its count when the list changes", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { rateLimit: [rate(5, MINUTE), tokens] });
      await nextWindow(world, MINUTE);
      await port.add(numbered(6).map((data) => newTask({ data, cost: 40 })));
      expect(await claimNames(port, { lease: HOUR })).toEqual(["0", "1"]);
      await port.declare(QUEUE, { rateLimit: [tokens, rate(9, HOUR), rate(5, MINUTE)] });
      expect(await claim(port)).toEqual([]);
      await port.declare(QUEUE, { rateLimit: [rate(5, MINUTE)] });
      expect(await claimNames(port)).toEqual(["2", "3", "4"]);
    });

    test("each limit of a group keeps its count when the list changes", async () => {
      const world = await start();
      const { port } = world;
      const groups = { concurrency: 9 };
      await govern(port, { ...groups, rateLimit: [tokens, rate(3, MINUTE)] });
      await nextWindow(world, MINUTE);
      await port.add(numbered(6).map((data) => newTask({ data, cost: 40, groupKey: "g" })));
      expect(await claimNames(port, { lease: HOUR })).toEqual(["0", "1"]);
      await govern(port, { ...groups, rateLimit: [rate(3, MINUTE), tokens] });
      expect(await claim(port)).toEqual([]);
      await govern(port, { ...groups, rateLimit: [rate(3, MINUTE)] });
      expect(await claimNames(port)).toEqual(["2"]);
    });

    test("a limit keeps its count when its max changes", async () => {
      const world = await start();
      const { port } = world;
      await port.declare(QUEUE, { rateLimit: [rate(5, MINUTE)] });
      await nextWindow(world, MINUTE);
      await addNamed(port, numbered(9));
      await claim(port, { max: 4, lease: HOUR });
      await port.declare(QUEUE, { rateLimit: [rate(3, MINUTE)] });
      expect(await claim(port)).toEqual([]);
      await port.declare(QUEUE, { rateLimit: [rate(6, MINUTE)] });
      expect(await claimNames(port)).toEqual(["4", "5"]);
    });
  });
}
