import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import type { AddedTask } from "../../../src/core/task/task.ts";
import type { Unique } from "../../../src/core/task/unique.ts";
import {
  ack,
  addOne,
  claim,
  claimOne,
  DAY,
  depths,
  HOUR,
  MINUTE,
  nack,
  newTask,
  QUEUE,
  refused,
  SECOND,
  type Start,
  stateOf,
} from "./kit.ts";

const unique = (fields: Partial<Unique> = {}): { unique: Unique } => ({
  unique: { key: "k", while: "pending", on: "keep", ...fields },
});
const WAITING = { while: "waiting" } as const;
const DEBOUNCE = { while: "waiting", on: "debounce" } as const;

function addUnique(
  port: Port,
  data: string,
  fields: Partial<Unique> = {},
  delay?: number,
): Promise<AddedTask> {
  return addOne(port, { data, ...unique(fields), ...(delay !== undefined && { delay }) });
}

export function uniqueTasks(start: Start): void {
  describe("adding with a unique key", () => {
    test("a unique key with while pending is taken until its task ends", async () => {
      const { port } = await start();
      const first = await addUnique(port, "1");
      expect(first.existing).toBe(false);
      expect(await addUnique(port, "2")).toEqual({
        id: first.id,
        queue: QUEUE,
        state: "ready",
        existing: true,
      });
      const held = await claimOne(port);
      expect(held.data).toBe("1");
      expect(await addUnique(port, "3")).toMatchObject({ id: first.id, state: "claimed", existing: true });
      await nack(port, held, HOUR);
      expect(await addUnique(port, "4")).toMatchObject({ id: first.id, state: "scheduled", existing: true });
      await port.cancel(first.id);
      const next = await addUnique(port, "5");
      expect(next.existing).toBe(false);
      expect(next.id).not.toBe(first.id);
      await ack(port, await claimOne(port));
      expect((await addUnique(port, "6")).existing).toBe(false);
    });

    test("a unique key with while waiting is taken until a worker starts its task", async () => {
      const { port } = await start();
      const first = await addUnique(port, "1", WAITING);
      expect(await addUnique(port, "2", WAITING)).toMatchObject({ id: first.id, existing: true });
      const held = await claimOne(port);
      const second = await addUnique(port, "3", WAITING);
      expect(second.existing).toBe(false);
      // The end of the first task does not free the key of the second.
      await ack(port, held);
      expect(await addUnique(port, "4", WAITING)).toMatchObject({ id: second.id, existing: true });
      await nack(port, await claimOne(port), 0);
      // It has started, although it is in the line again.
      expect((await addUnique(port, "5", WAITING)).existing).toBe(false);
    });

    test("a released task has its unique key again, unless another task took it", async () => {
      const { port } = await start();
      const { id } = await addUnique(port, "1", WAITING);
      const held = await claimOne(port);
      await port.settle(held, { kind: "release", started: true });
      expect(await addUnique(port, "2", WAITING)).toMatchObject({ id, existing: true });
    });

    test("a unique key for a duration is taken from the add on, whatever happens to its task", async () => {
      const { port, clock } = await start();
      const minute = { while: MINUTE };
      const first = await addUnique(port, "1", minute);
      await ack(port, await claimOne(port));
      await clock.advance(MINUTE - SECOND);
      expect(await addUnique(port, "2", minute)).toMatchObject({
        id: first.id,
        state: "done",
        existing: true,
      });
      await clock.advance(SECOND);
      expect((await addUnique(port, "3", minute)).existing).toBe(false);
    });

    test("unique with replace changes the payload of the waiting task, and keeps its position", async () => {
      const { port } = await start();
      const { id } = await addUnique(port, "old", { ...WAITING, on: "replace" });
      await addOne(port, { data: "other" });
      const task = { data: new Uint8Array([0, 255]), headers: { kind: "new" }, contentType: "a/b" };
      const [again] = await port.add([newTask({ ...task, ...unique({ ...WAITING, on: "replace" }) })]);
      expect(again).toMatchObject({ id, existing: true });
      expect(await port.task(id)).toMatchObject({ ...task, uniqueKey: "k", idempotencyKey: null });
      expect(await claim(port, { max: 2 })).toMatchObject([{ id, ...task }, { data: "other" }]);
    });

    test("unique with debounce replaces the payload, and the delay begins again", async () => {
      const { port, clock } = await start();
      const { id } = await addUnique(port, "1", DEBOUNCE, MINUTE);
      await clock.advance(50 * SECOND);
      expect(await addUnique(port, "2", DEBOUNCE, MINUTE)).toMatchObject({
        id,
        state: "scheduled",
        existing: true,
      });
      await clock.advance(50 * SECOND);
      expect(await claim(port)).toEqual([]);
      await clock.advance(10 * SECOND);
      expect(await stateOf(port, id)).toBe("ready");
      // It is due, and no worker has come: it waits once more.
      expect(await addUnique(port, "3", DEBOUNCE, MINUTE)).toMatchObject({
        id,
        state: "scheduled",
        existing: true,
      });
      expect(await claim(port)).toEqual([]);
      await clock.advance(MINUTE);
      expect(await claimOne(port)).toMatchObject({ id, data: "3" });
      expect((await addUnique(port, "4", DEBOUNCE, MINUTE)).existing).toBe(false);
    });

    test("a debounced head of a group steps aside", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { data: "head", groupKey: "g", ...unique(DEBOUNCE), delay: SECOND });
      await clock.advance(SECOND);
      const { id: next } = await addOne(port, { data: "next", groupKey: "g" });
      expect([await stateOf(port, id), await stateOf(port, next)]).toEqual(["ready", "waiting"]);
      await addOne(port, { data: "head 2", groupKey: "g", ...unique(DEBOUNCE), delay: MINUTE });
      expect([await stateOf(port, id), await stateOf(port, next)]).toEqual(["scheduled", "ready"]);
      await ack(port, await claimOne(port));
      await clock.advance(MINUTE);
      expect(await claimOne(port)).toMatchObject({ id, data: "head 2" });
    });

    test("adds with the same unique key in one batch take effect one after the other", async () => {
      const { port } = await start();
      const of = (data: string) => newTask({ data, ...unique({ ...WAITING, on: "replace" }) });
      const added = await port.add([of("1"), newTask({ data: "plain" }), of("2"), of("3")]);
      expect(added.map(({ existing }) => existing)).toEqual([false, false, true, true]);
      expect(new Set([added[0]!.id, added[2]!.id, added[3]!.id]).size).toBe(1);
      expect((await claim(port, { max: 9 })).map(({ data }) => data)).toEqual(["3", "plain"]);
    });

    test("64 producers at once add one task", async () => {
      const { port } = await start();
      for (const [key, fields] of Object.entries({
        pending: {},
        waiting: WAITING,
        replace: { ...WAITING, on: "replace" as const },
        minute: { while: MINUTE },
      })) {
        const adds = await Promise.all(
          Array.from({ length: 64 }, (_, n) => addUnique(port, `${n}`, { key, ...fields })),
        );
        expect(adds.filter(({ existing }) => !existing)).toHaveLength(1);
        expect(new Set(adds.map(({ id }) => id)).size).toBe(1);
      }
      expect((await depths(port)).ready).toBe(4);
    });

    test("unique keys and idempotency keys are separate, and belong to their queue", async () => {
      const { port } = await start();
      const adds = [
        await addUnique(port, "1"),
        await addOne(port, { idempotencyKey: "k" }),
        await addOne(port, { queue: "other", ...unique() }),
      ];
      expect(adds.map(({ existing }) => existing)).toEqual([false, false, false]);
      expect(await port.task(adds[1]!.id)).toMatchObject({ idempotencyKey: "k" });
      expect("uniqueKey" in (await port.task(adds[1]!.id))).toBe(false);
    });

    test("an add with the unique key of an existing task needs no room in a full queue", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 1 });
      await addUnique(port, "1", WAITING);
      expect((await addUnique(port, "2", WAITING)).existing).toBe(true);
      await refused(() => addUnique(port, "3", { key: "another" }), "QUEUE_FULL");
      await claimOne(port);
      expect((await addUnique(port, "4", WAITING)).existing).toBe(false);
    });

    test("tasks that an ack adds are unique too", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { queue: "next", data: "1", ...unique() });
      await addOne(port);
      const adds = [newTask({ queue: "next", data: "2", ...unique() })];
      await port.settle(await claimOne(port), { kind: "ack", result: null, adds });
      expect((await claim(port, { queues: ["next"], max: 9 })).map((task) => task.id)).toEqual([id]);
    });

    test("a purge frees a unique key", async () => {
      const { port } = await start();
      await addUnique(port, "1");
      await port.purge(QUEUE);
      expect((await addUnique(port, "2")).existing).toBe(false);
    });

    test.each<[string, Partial<Unique>, object]>([
      ["both keys", {}, { idempotencyKey: "i" }],
      ["replace while pending", { on: "replace" }, {}],
      ["debounce without a delay", DEBOUNCE, {}],
      ["an unknown while", { while: "later" as never }, {}],
      ["more than a day", { while: DAY + 1 }, {}],
      ["an unknown on", { on: "drop" as never }, {}],
      ["a control character in its key", { key: "\u0001k" }, {}],
      ["an empty key", { key: "" }, {}],
    ])("%s is refused", async (_, fields, more) => {
      const { port } = await start();
      await refused(() => addOne(port, { ...unique(fields), ...more }), "INVALID");
      expect(await claim(port)).toEqual([]);
    });
  });
}

export function uniqueInTransactions(start: Start): void {
  describe("unique tasks in the caller's transaction", () => {
    test("an add in the caller's transaction takes its unique key at the commit, and other adds wait for that", async () => {
      const { port, begin } = await start();
      const caller = await begin();
      const [first] = await port.add([newTask({ data: "1", ...unique() })], { tx: caller });
      const [again] = await port.add([newTask({ data: "2", ...unique() })], { tx: caller });
      expect(again).toMatchObject({ id: first!.id, existing: true });
      const other = addUnique(port, "3");
      await caller.commit();
      expect(await other).toMatchObject({ id: first!.id, existing: true });
    });

    test("an add that is rolled back leaves its unique key free", async () => {
      const { port, begin } = await start();
      const caller = await begin();
      await port.add([newTask(unique())], { tx: caller });
      await caller.rollback();
      expect((await addUnique(port, "1")).existing).toBe(false);
    });

    test("an add in the caller's transaction takes over the unique key of a started task", async () => {
      const { port, begin } = await start();
      const first = await addUnique(port, "1", WAITING);
      const caller = await begin();
      const within = (data: string) => port.add([newTask({ data, ...unique(WAITING) })], { tx: caller });
      expect((await within("2"))[0]).toMatchObject({ id: first.id, existing: true });
      await claimOne(port);
      const [second] = await within("3");
      expect(second!.existing).toBe(false);
      await caller.commit();
      expect(await addUnique(port, "4", WAITING)).toMatchObject({ id: second!.id, existing: true });
    });

    test("an add in the caller's transaction cannot replace the payload of a committed task", async () => {
      const { port, begin } = await start();
      await addUnique(port, "1", WAITING);
      const caller = await begin();
      const task = newTask({ data: "2", ...unique({ ...WAITING, on: "replace" }) });
      await refused(() => port.add([task], { tx: caller }), "UNSUPPORTED", "keep");
      await caller.rollback();
      expect((await claimOne(port)).data).toBe("1");
    });
  });
}
