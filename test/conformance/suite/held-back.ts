import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import { govern, rate } from "./governing.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimOne,
  failure,
  HOUR,
  joinWorker,
  MINUTE,
  QUEUE,
  SECOND,
  type Start,
} from "./kit.ts";

const reason = async (port: Port) => (await port.stats(QUEUE)).heldBack;

export function heldBack(start: Start): void {
  describe("stats().heldBack", () => {
    test("heldBack is null while a task may start", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxConcurrency: 2, rateLimit: [rate(2, MINUTE)] });
      expect(await reason(port)).toBe(null);
      await addNamed(port, ["1", "2"]);
      await claimOne(port);
      expect(await reason(port)).toBe(null);
      // Nothing is left that could start.
      await claimOne(port);
      expect(await reason(port)).toBe(null);
    });

    test("heldBack names the concurrency until a task ends", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxConcurrency: 1 });
      await addNamed(port, ["1", "2"]);
      const held = await claimOne(port);
      expect(await reason(port)).toEqual({ by: "concurrency", until: null });
      await ack(port, held);
      expect(await reason(port)).toBe(null);
    });

    test("heldBack names the rate until the next span", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { rateLimit: [rate(1, MINUTE)] });
      await addNamed(port, ["1", "2"]);
      const { createdAt } = await claimOne(port);
      const until = createdAt - (createdAt % MINUTE) + MINUTE;
      expect(await reason(port)).toEqual({ by: "rate", until });
      await clock.advance(until - createdAt);
      expect(await reason(port)).toBe(null);
    });

    test("heldBack names the rate if the first task in the line costs too much", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { rateLimit: [rate(100, HOUR, { unit: "tokens" })] });
      await addOne(port, { cost: 60 });
      await addOne(port, { cost: 50 });
      await claimOne(port);
      expect(await reason(port)).toMatchObject({ by: "rate" });
      await addOne(port, { cost: 40, priority: 1 });
      expect(await reason(port)).toBe(null);
    });

    test("heldBack names the window, except for urgent tasks", async () => {
      const { port, clock } = await start();
      const { createdAt } = await port.task((await addOne(port)).id);
      const until = createdAt - (createdAt % MINUTE) + 2 * MINUTE;
      const timeOf = (at: number): string => new Date(at).toISOString().slice(11, 16);
      const hours = `${timeOf(until)}-${timeOf(until + MINUTE)}`;
      await port.declare(QUEUE, { window: { hours, tz: "UTC" } });
      expect(await reason(port)).toEqual({ by: "window", until });
      await addOne(port, { urgent: true });
      expect(await reason(port)).toBe(null);
      await claimOne(port);
      expect(await reason(port)).toMatchObject({ by: "window" });
      await clock.advance(until - createdAt);
      expect(await reason(port)).toBe(null);
    });

    test("heldBack names a hold until it ends or is lifted", async () => {
      const { port, startedAt } = await start();
      await addOne(port);
      const held = await claimOne(port);
      await port.settle(held, { kind: "hold", error: failure("429"), delay: HOUR });
      expect(await reason(port)).toEqual({ by: "hold", until: startedAt + HOUR });
      await port.unhold(QUEUE);
      expect(await reason(port)).toBe(null);
    });

    test("heldBack names the groups if all waiting tasks are held by their groups", async () => {
      const { port, clock, startedAt } = await start();
      await addOne(port, { groupKey: "a" });
      await addOne(port, { groupKey: "b" });
      const [a, b] = await claim(port, { max: 2 });
      expect(await reason(port)).toBe(null);
      await port.settle(a!, { kind: "hold", error: failure("429"), delay: HOUR });
      await port.settle(b!, { kind: "hold", error: failure("429"), delay: MINUTE });
      expect(await reason(port)).toEqual({ by: "groups", until: startedAt + MINUTE });
      await addOne(port);
      expect(await reason(port)).toBe(null);
      await ack(port, await claimOne(port));
      await clock.advance(MINUTE);
      expect(await claim(port, { max: 9 })).toHaveLength(1);
      expect(await reason(port)).toEqual({ by: "groups", until: startedAt + HOUR });
    });

    test("heldBack is null if tasks wait only for other tasks of their group", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 1, fair: true });
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await claimOne(port);
      expect(await reason(port)).toBe(null);
    });

    test("heldBack also counts tasks in the sticky line", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxConcurrency: 1, groups: { sticky: true } });
      const worker = await joinWorker(port, "w");
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await ack(port, await worker.claimOne());
      expect(await reason(port)).toBe(null);
      await addOne(port, { priority: 1 });
      await claimOne(port, { lease: 30 * SECOND });
      expect(await reason(port)).toEqual({ by: "concurrency", until: null });
    });
  });
}
