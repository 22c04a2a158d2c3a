import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import type { TravellingTask } from "../../../src/core/task.ts";
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
  idsOf,
  makeDead,
  MINUTE,
  nack,
  namesOf,
  numbered,
  passLong,
  QUEUE,
  refused,
  SECOND,
  type Start,
  stateOf,
} from "./kit.ts";

/** Which store it is. */
async function numberOf(port: Port): Promise<number> {
  return (await port.arrive([])).store;
}

async function depart(from: Port, to: Port, limit = 100, queue = QUEUE): Promise<TravellingTask[]> {
  return from.depart(queue, await numberOf(to), limit);
}

/** One batch, all the way; answers the ids there. */
async function moveSome(from: Port, to: Port, limit = 100): Promise<string[]> {
  const tasks = await depart(from, to, limit);
  const { tasks: arrived } = await to.arrive(tasks);
  await from.gone(tasks.map(({ origin }) => ({ id: origin, cancelled: false })));
  return idsOf(arrived);
}

async function moveAll(from: Port, to: Port): Promise<void> {
  while ((await moveSome(from, to)).length > 0);
}

export function move(start: Start): void {
  describe("from one store to another", () => {
    const two = async () => {
      const [here, there] = [await start(), await start()];
      // Two machines' clocks need not agree.
      await there.clock.advance(7 * MINUTE);
      return { here, there, from: here.port, to: there.port };
    };

    test("a task arrives with all it has, and is known there by its old id", async () => {
      const { from, to } = await two();
      const added = await addOne(from, {
        data: new Uint8Array([0, 1, 255]),
        contentType: "application/octet-stream",
        headers: { kind: "ship", "": "\u0000" },
        priority: -7,
        groupKey: "g",
        idempotencyKey: "k",
        ttl: HOUR,
        maxAttempts: 9,
      });
      const before = await from.task(added.id);
      const [id] = await moveSome(from, to);
      const after = await to.task(added.id);
      expect(after).toEqual({
        ...before,
        id,
        createdAt: after.createdAt,
        expiresAt: after.createdAt + HOUR,
      });
      await refused(() => from.task(added.id), "TASK_NOT_FOUND", "moved to another store");
      expect(await depths(from)).toEqual({});
      const held = await claimOne(to);
      expect(held).toMatchObject({ id, data: before.data, headers: before.headers, maxAttempts: 9 });
      await ack(to, held, "1");
      expect(await to.end(added.id)).toMatchObject({ id, state: "done", result: "1" });
      expect(await to.history(added.id)).toHaveLength(1);
    });

    test("times are kept as distances: the stores' clocks differ", async () => {
      const { here, there, from, to } = await two();
      const { id } = await addOne(from, { delay: MINUTE, ttl: HOUR });
      await here.clock.advance(20 * SECOND);
      await moveSome(from, to);
      const now = there.clock.read().wall;
      expect(await to.task(id)).toMatchObject({
        state: "scheduled",
        createdAt: now - 20 * SECOND,
        dueAt: now + 40 * SECOND,
        expiresAt: now + HOUR - 20 * SECOND,
      });
      await there.clock.advance(40 * SECOND);
      expect(await claimNames(to)).toEqual(["{}"]);
    });

    test("what is on its way is nobody else's: not claimed, purged or expired, but counted", async () => {
      const { here, from, to } = await two();
      await addNamed(from, ["ready"], { ttl: SECOND });
      await addNamed(from, ["later"], { delay: SECOND });
      expect(namesOf(await depart(from, to))).toEqual(["ready", "later"]);
      await here.clock.advance(MINUTE);
      expect(await claim(from, { max: 10 })).toEqual([]);
      expect(await from.purge(QUEUE)).toBe(0);
      expect(await depths(from)).toEqual({ ready: 1, scheduled: 1 });
      await addNamed(from, ["new"]);
      expect(await claimNames(from)).toEqual(["new"]);
    });

    test("a move that was interrupted goes on where it stopped, and doubles nothing", async () => {
      const { from, to } = await two();
      await addNamed(from, numbered(5));
      const first = await depart(from, to, 3);
      expect(await depart(from, to, 3)).toEqual(first);
      const arrived = await to.arrive(first);
      expect(await to.arrive(first)).toEqual({
        store: arrived.store,
        tasks: arrived.tasks.map(({ id }) => ({ id, existing: true })),
      });
      // Killed here. What has arrived may be done and forgotten by the time it is run again.
      for (const held of await claim(to, { max: 10 })) await ack(to, held);
      await moveAll(from, to);
      expect(await claimNames(to)).toEqual(["3", "4"]);
      expect(await depths(to)).toEqual({ claimed: 2, done: 3 });
      expect(await depths(from)).toEqual({});
    });

    test("whether a queue may depart can be asked beforehand, and nothing is held by that", async () => {
      const { from, to } = await two();
      const third = (await start()).port;
      await addNamed(from, ["a"]);
      expect(await depart(from, to, 0)).toEqual([]);
      expect(await depart(from, to, 0, "nobodys")).toEqual([]);
      expect(await claimNames(from)).toEqual(["a"]);
      await addNamed(from, ["b"]);
      await depart(from, to, 1);
      expect(await depart(from, to, 0)).toEqual([]);
      await refused(() => depart(from, third, 0), "INVALID", "Run that move again");
    });

    test("what was never handed out does not go", async () => {
      const { from } = await two();
      const { id } = await addOne(from);
      expect(await from.gone([{ id, cancelled: false }])).toEqual({ cancelled: [] });
      expect(await stateOf(from, id)).toBe("ready");
    });

    test("what runs stays until it ends; its retry moves, with its failures and its ledger", async () => {
      const { there, from, to } = await two();
      const { id } = await addOne(from);
      const held = await claimOne(from, { worker: "w" });
      expect(await depart(from, to)).toEqual([]);
      await nack(from, held, MINUTE, failure("it broke there"));
      await moveSome(from, to);
      expect(await to.task(id)).toMatchObject({ state: "scheduled", attempt: 2 });
      await there.clock.advance(MINUTE);
      const again = await claimOne(to, { worker: "other" });
      expect(again.attempt).toBe(2);
      await nack(to, again);
      const history = await to.history(id);
      expect(history).toMatchObject([
        { attempt: 1, worker: "w", outcome: "failed", error: { message: "it broke there" } },
        { attempt: 2, worker: "other", outcome: "failed" },
      ]);
      expect(history[0]!.fence).toBeLessThan(history[1]!.fence);
    });

    test("a cancel meanwhile is kept for the other store", async () => {
      const { from, to } = await two();
      const { id } = await addOne(from);
      const [task] = await depart(from, to);
      expect(await from.cancel(id)).toBe("ready");
      expect((await from.task(id)).cancelRequested).toBe(true);
      await to.arrive([task!]);
      expect(await from.gone([{ id, cancelled: false }])).toEqual({ cancelled: [id] });
      expect(await depart(from, to)).toMatchObject([{ origin: id, cancelRequested: true }]);
      expect(await to.cancel(id)).toBe("cancelled");
      expect(await from.gone([{ id, cancelled: true }])).toEqual({ cancelled: [] });
      expect(await depths(from)).toEqual({});
    });

    test("a group leaves in order, and not while its head runs", async () => {
      const { from, to } = await two();
      await addNamed(from, ["a", "b", "c"], { groupKey: "g" });
      const head = await claimOne(from);
      expect(await depart(from, to)).toEqual([]);
      await ack(from, head);
      expect(namesOf((await depart(from, to, 2)).filter(({ state }) => state !== "done"))).toEqual([
        "b",
        "c",
      ]);
      // Whoever comes meanwhile waits for those on their way.
      const late = await addOne(from, { data: "d", groupKey: "g" });
      expect(late.state).toBe("waiting");
      await moveAll(from, to);
      expect(await depths(from)).toEqual({});
      for (const name of ["b", "c", "d"]) {
        const held = await claimOne(to);
        expect(held.data).toBe(name);
        expect(await claim(to)).toEqual([]);
        await ack(to, held);
      }
    });

    test("a group longer than the batch stays in order, and is free when the last is gone", async () => {
      const { from, to } = await two();
      await addNamed(from, numbered(7), { groupKey: "g" });
      await addNamed(from, ["x"], { groupKey: "h" });
      while ((await moveSome(from, to, 3)).length > 0);
      const seen: string[] = [];
      for (let held = await claim(to, { max: 9 }); held.length > 0; held = await claim(to, { max: 9 })) {
        for (const task of held) {
          seen.push(task.data as string);
          await ack(to, task);
        }
      }
      expect(seen.filter((name) => name !== "x")).toEqual(numbered(7));
      expect((await addOne(from, { groupKey: "g" })).state).toBe("ready");
    });

    test("the head of a group that waits for its next try stays the head", async () => {
      const { there, from, to } = await two();
      await addNamed(from, ["a", "b"], { groupKey: "g" });
      await nack(from, await claimOne(from), MINUTE);
      await moveAll(from, to);
      expect(await claim(to)).toEqual([]);
      await there.clock.advance(MINUTE);
      expect(await claimOne(to)).toMatchObject({ data: "a", attempt: 2 });
    });

    test("it waits behind a head that is there already, and keeps its failures", async () => {
      const { from, to } = await two();
      await addNamed(from, ["a", "b"], { groupKey: "g" });
      await nack(from, await claimOne(from), MINUTE);
      await addNamed(to, ["first"], { groupKey: "g" });
      await moveAll(from, to);
      const first = await claimOne(to);
      expect(await claim(to)).toEqual([]);
      await ack(to, first);
      expect(await claimOne(to)).toMatchObject({ data: "a", attempt: 2 });
    });

    test("a group none of which may start yet leaves too, in its order", async () => {
      const { from, to } = await two();
      await govern(from, { rateLimit: [rate(1, HOUR)] });
      await addNamed(from, numbered(3, "slow"), { groupKey: "slow" });
      await addNamed(from, numbered(3, "held"), { groupKey: "held" });
      const [slow, held] = await claim(from, { max: 2 });
      await ack(from, slow!);
      await from.settle(held!, { kind: "hold", error: failure("429"), delay: HOUR });
      expect(await depths(from)).toMatchObject({ waiting: 5 });
      await moveAll(from, to);
      expect(await depths(from)).toEqual({});
      expect(await claimNames(to, { max: 1 })).toEqual(["held0"]);
      expect(await depths(to)).toMatchObject({ claimed: 1, ready: 1, waiting: 3, done: 1 });
    });

    test("what a task costs, and that it is urgent, goes with it", async () => {
      const { from, to } = await two();
      await addNamed(from, ["usual"], { priority: 1_000 });
      const { id } = await addOne(from, { data: "first", urgent: true, priority: -3, cost: 12 });
      expect(namesOf(await depart(from, to))).toEqual(["first", "usual"]);
      await moveSome(from, to);
      expect(await to.task(id)).toMatchObject({ urgent: true, priority: -3, cost: 12 });
      expect(await claimOne(to)).toMatchObject({ data: "first", priority: -3, cost: 12 });
    });

    test("dead letters arrive with their ledger, and can be redriven there", async () => {
      const { from, to } = await two();
      const id = await makeDead(from, { idempotencyKey: "k" }, failure("no such address", "MailError"));
      const before = await from.patterns(QUEUE, "fingerprint", 10);
      await depart(from, to);
      expect(await from.redrive(QUEUE, {}, 0)).toBe(0);
      expect(await from.discard(QUEUE, {})).toBe(0);
      await moveAll(from, to);
      expect(await depths(from)).toEqual({});
      expect(await to.task(id)).toMatchObject({ state: "dead", error: { message: "no such address" } });
      expect(await to.patterns(QUEUE, "fingerprint", 10)).toMatchObject([
        { pattern: before[0]!.pattern, count: 1 },
      ]);
      expect(await to.redrive(QUEUE, {}, 0)).toBe(1);
      expect(await to.history(id)).toHaveLength(1);
      expect(await addOne(to, { idempotencyKey: "k" })).toMatchObject({ existing: true, state: "ready" });
    });

    test("what has ended comes last, with its result, for as long as it is kept", async () => {
      const { here, there, from, to } = await two();
      const { id } = await addOne(from, { idempotencyKey: "k" });
      await ack(from, await claimOne(from, { worker: "w" }), `"sent"`);
      const other = await addOne(from);
      await from.cancel(other.id);
      await passLong(here.clock, HOUR);
      await addNamed(from, ["pending"]);
      expect((await depart(from, to)).map(({ state }) => state)).toEqual(["ready", "done", "cancelled"]);
      await moveAll(from, to);
      expect(await depths(from)).toEqual({});
      expect(await depths(to)).toEqual({ ready: 1, done: 1, cancelled: 1 });
      expect(await to.end(id)).toMatchObject({ state: "done", result: `"sent"` });
      expect(await to.history(id)).toMatchObject([{ worker: "w", outcome: "done" }]);
      expect(await addOne(to, { idempotencyKey: "k" })).toMatchObject({ existing: true, state: "done" });
      // The key is taken for a day after the end, of which an hour has passed.
      there.clock.sleep(23 * HOUR);
      await there.clock.advance(SECOND);
      expect(await addOne(to, { idempotencyKey: "k" })).toMatchObject({ existing: false });
    });

    test("same key, same task: also where both stores took one", async () => {
      const { from, to } = await two();
      const there = await addOne(to, { data: "there", idempotencyKey: "k" });
      const here = await addOne(from, { data: "here", idempotencyKey: "k" });
      await moveAll(from, to);
      expect(await depths(from)).toEqual({});
      expect(await claimNames(to)).toEqual(["there"]);
      expect((await to.task(here.id)).id).toBe(there.id);
      // Its key is free where it was, and leads to the same task again.
      await addOne(from, { data: "again", idempotencyKey: "k" });
      await moveAll(from, to);
      expect(await depths(to)).toEqual({ claimed: 1 });
    });

    test("they were accepted once: no limit of the other store turns them away", async () => {
      const { from, to } = await two();
      await to.declare(QUEUE, { maxDepth: 1, maxPayload: 1 });
      await addNamed(from, ["one", "two"]);
      await moveAll(from, to);
      expect(await claimNames(to)).toEqual(["one", "two"]);
    });

    test("there and back again", async () => {
      const { from, to } = await two();
      await addNamed(from, ["a", "b"], { groupKey: "g" });
      await moveAll(from, to);
      await moveAll(to, from);
      await moveAll(from, to);
      expect(await depths(from)).toEqual({});
      expect(await depths(to)).toEqual({ ready: 1, waiting: 1 });
    });

    test("refuses to move into itself, or elsewhere while a move was not finished", async () => {
      const { from, to } = await two();
      const third = (await start()).port;
      await addOne(from);
      await refused(() => depart(from, from), "INVALID", "into itself");
      const [task] = await depart(from, to);
      await refused(() => depart(from, third), "INVALID", QUEUE, "Run that move again");
      await to.arrive([task!]);
      await from.gone([{ id: task!.origin, cancelled: false }]);
      expect(await depart(from, third)).toEqual([]);
    });

    test("a queue that is dropped takes what was on its way with it", async () => {
      const { from, to } = await two();
      await addNamed(from, ["a", "b"], { groupKey: "g" });
      await makeDead(from, { queue: "other" });
      await depart(from, to);
      await depart(from, to, 10, "other");
      await from.drop(QUEUE);
      await from.drop("other");
      expect(await from.queues()).toEqual([]);
      expect((await addOne(from, { groupKey: "g" })).state).toBe("ready");
    });
  });
}
