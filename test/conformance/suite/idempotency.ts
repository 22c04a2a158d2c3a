import { describe, expect, test } from "vitest";
import {
  ack,
  addOne,
  claimOne,
  DAY,
  depths,
  HOUR,
  MINUTE,
  nack,
  newTask,
  QUEUE,
  reject,
  refused,
  SECOND,
  type Start,
  type World,
  passLong,
} from "./kit.ts";

/** Brings the task of a case into a state. */
const STATES: [string, (world: World, id: string) => Promise<unknown>][] = [
  ["ready", async () => {}],
  ["claimed", ({ port }) => claimOne(port)],
  ["scheduled", async ({ port }) => nack(port, await claimOne(port), HOUR)],
  ["done", async ({ port }) => ack(port, await claimOne(port))],
  ["dead", async ({ port }) => reject(port, await claimOne(port))],
  ["cancelled", ({ port }, id) => port.cancel(id)],
];

export function idempotency(start: Start): void {
  describe("adding with a key that is in use", () => {
    test.each(STATES)("adding with the key of a task that is %s returns that task", async (state, bring) => {
      const world = await start();
      const { port } = world;
      const { id } = await addOne(port, { idempotencyKey: "k" });
      await bring(world, id);
      const before = await port.task(id);
      expect(await addOne(port, { idempotencyKey: "k", data: "another" })).toEqual({
        id,
        queue: QUEUE,
        state,
        existing: true,
      });
      expect(await port.task(id)).toEqual(before);
    });

    test("adding with the key of a waiting or expired task returns that task", async () => {
      const { port, clock } = await start();
      await addOne(port, { groupKey: "g" });
      const { id } = await addOne(port, { groupKey: "g", idempotencyKey: "k", ttl: SECOND });
      expect(await addOne(port, { idempotencyKey: "k" })).toMatchObject({
        id,
        state: "waiting",
        existing: true,
      });
      await clock.advance(SECOND);
      expect(await addOne(port, { idempotencyKey: "k" })).toMatchObject({
        id,
        state: "expired",
        existing: true,
      });
    });

    test("one batch with a key twice adds one task", async () => {
      const { port } = await start();
      const tasks = ["a", "b", "a"].map((idempotencyKey) => newTask({ idempotencyKey }));
      const [first, second, third] = await port.add(tasks);
      expect(first).toMatchObject({ existing: false });
      expect(second).toMatchObject({ existing: false });
      expect(third).toEqual({ ...first, existing: true });
      expect(await depths(port)).toEqual({ ready: 2 });
    });

    test("many concurrent adds with one key add one task", async () => {
      const { port } = await start();
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => addOne(port, { idempotencyKey: "k" })),
      );
      expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
      expect(answers.filter(({ existing }) => !existing)).toHaveLength(1);
    });

    test("the same key in another queue is another key", async () => {
      const { port } = await start();
      const a = await addOne(port, { queue: "a", idempotencyKey: "k" });
      const b = await addOne(port, { queue: "b", idempotencyKey: "k" });
      expect(b).toMatchObject({ existing: false });
      expect(b.id).not.toBe(a.id);
    });

    test("keys differ by case and by every character", async () => {
      const { port } = await start();
      const keys = ["k", "K", "k ", "ｋ", "é", "e\u0301"];
      const added = await port.add(keys.map((idempotencyKey) => newTask({ idempotencyKey })));
      expect(added.some(({ existing }) => existing)).toBe(false);
    });

    test("adding with a key that is in use needs no room in a full queue", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 1 });
      const { id } = await addOne(port, { idempotencyKey: "k" });
      expect(await addOne(port, { idempotencyKey: "k" })).toMatchObject({ id, existing: true });
      await refused(() => addOne(port, { idempotencyKey: "other" }), "QUEUE_FULL");
    });
  });

  describe("how long a key is valid", () => {
    test("a key is valid for 24 hours after the end of its task", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { idempotencyKey: "k" });
      await passLong(clock, DAY);
      await ack(port, await claimOne(port));
      await passLong(clock, DAY - MINUTE);
      expect(await addOne(port, { idempotencyKey: "k" })).toMatchObject({ id, existing: true });
      await clock.advance(MINUTE);
      const next = await addOne(port, { idempotencyKey: "k" });
      expect(next.existing).toBe(false);
      expect(next.id).not.toBe(id);
    });

    test("a key outlives the row of its task", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { retention: { age: MINUTE, count: 10 } });
      const { id } = await addOne(port, { idempotencyKey: "k" });
      await ack(port, await claimOne(port));
      await passLong(clock, HOUR);
      await refused(() => port.task(id), "TASK_NOT_FOUND");
      expect(await addOne(port, { idempotencyKey: "k" })).toEqual({
        id,
        queue: QUEUE,
        state: "done",
        existing: true,
      });
    });

    test("a key is valid while its task has not ended", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { idempotencyKey: "k", delay: 30 * DAY });
      await passLong(clock, 29 * DAY);
      expect(await addOne(port, { idempotencyKey: "k" })).toMatchObject({ id, existing: true });
    });

    test("a redriven task keeps its key", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { idempotencyKey: "k" });
      await reject(port, await claimOne(port));
      await passLong(clock, HOUR);
      await port.redrive(QUEUE, {}, 0);
      await passLong(clock, 2 * DAY);
      expect(await addOne(port, { idempotencyKey: "k" })).toMatchObject({
        id,
        state: "ready",
        existing: true,
      });
    });

    test("a redriven task takes its key again after it was free", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { idempotencyKey: "k" });
      await reject(port, await claimOne(port));
      await passLong(clock, 2 * DAY);
      await port.redrive(QUEUE, {}, 0);
      expect(await addOne(port, { idempotencyKey: "k" })).toMatchObject({ id, existing: true });
    });

    test("the newer task keeps the key when an older one is redriven or discarded", async () => {
      const { port, clock } = await start();
      const old = await addOne(port, { idempotencyKey: "k" });
      await reject(port, await claimOne(port));
      await passLong(clock, 2 * DAY);
      const newer = await addOne(port, { idempotencyKey: "k" });
      await port.redrive(QUEUE, { ids: [old.id] }, 0);
      expect(await addOne(port, { idempotencyKey: "k" })).toMatchObject({ id: newer.id, existing: true });
      const held = await claimOne(port);
      expect(held.id).toBe(newer.id);
      await reject(port, await claimOne(port));
      await port.discard(QUEUE, {});
      expect(await addOne(port, { idempotencyKey: "k" })).toMatchObject({ id: newer.id, existing: true });
    });
  });

  describe("what frees a key", () => {
    test("a purge frees an idempotency key", async () => {
      const { port } = await start();
      await addOne(port, { idempotencyKey: "k" });
      await port.purge(QUEUE);
      expect((await addOne(port, { idempotencyKey: "k" })).existing).toBe(false);
    });

    test("discarding a dead letter frees its idempotency key", async () => {
      const { port } = await start();
      await addOne(port, { idempotencyKey: "k" });
      await reject(port, await claimOne(port));
      await port.discard(QUEUE, {});
      expect((await addOne(port, { idempotencyKey: "k" })).existing).toBe(false);
    });

    test("dropping a queue frees its idempotency keys", async () => {
      const { port } = await start();
      await addOne(port, { idempotencyKey: "k" });
      await ack(port, await claimOne(port));
      await port.drop(QUEUE);
      expect((await addOne(port, { idempotencyKey: "k" })).existing).toBe(false);
    });
  });
}
