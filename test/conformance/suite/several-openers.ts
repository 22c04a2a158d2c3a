import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  depths,
  eventsUntil,
  HOUR,
  idsOf,
  isPending,
  joinWorker,
  listen,
  MINUTE,
  nack,
  nackWithBackoff,
  namesOf,
  numbered,
  QUEUE,
  refused,
  release,
  SAFETY_POLL,
  SECOND,
  type Start,
  stateOf,
  waiting,
  type World,
} from "./kit.ts";
import { publish, queueOf, subscribed } from "./topics.ts";

const LEASE = 30 * SECOND;

export function severalOpeners(start: Start): void {
  test("64 producers in two processes add one task with a unique key", async () => {
    const world = await start();
    const ports = [world.port, (await world.another()).port];
    for (const during of ["pending", "waiting", MINUTE] as const) {
      const task = { unique: { key: `${during}`, while: during, on: "keep" as const } };
      const adds = await Promise.all(Array.from({ length: 64 }, (_, n) => addOne(ports[n % 2]!, task)));
      expect(adds.filter(({ existing }) => !existing)).toHaveLength(1);
      expect(new Set(adds.map(({ id }) => id)).size).toBe(1);
    }
    expect(await claim(world.port, { max: 9 })).toHaveLength(3);
  });

  /** Two processes, as far as the store can tell. */
  async function two(): Promise<{ a: Port; b: Port; other: World } & World> {
    const world = await start();
    const other = await world.another();
    return Object.assign(world, { a: world.port, b: other.port, other });
  }

  describe("several openers of one store", () => {
    test("each opener sees what the others did", async () => {
      const { a, b } = await two();
      await a.declare(QUEUE, { maxAttempts: 7 });
      const { id } = await addOne(a, { data: "x" });
      expect(await b.task(id)).toMatchObject({ data: "x", maxAttempts: 7 });
      expect(await depths(b)).toEqual({ ready: 1 });
      await ack(b, await claimOne(b), "r");
      expect(await a.task(id)).toMatchObject({ state: "done", result: "r" });
      expect(await a.history(id)).toHaveLength(1);
      expect(await depths(a)).toEqual({ done: 1 });
    });

    test("a task goes to exactly one opener", async () => {
      const { a, b, another } = await two();
      const c = (await another()).port;
      const ids = await addNamed(a, numbered(300));
      const answers = await Promise.all(
        numbered(30).map((worker, index) => claim([a, b, c][index % 3]!, { max: 10, worker })),
      );
      expect(idsOf(answers.flat()).toSorted()).toEqual(ids);
      const fences = answers.flat().map(({ fence }) => fence);
      expect(new Set(fences).size).toBe(300);
    });

    test("several openers complete parts of a run at the same moment, and these are joined once", async () => {
      const { a, b, another } = await two();
      const c = (await another()).port;
      const stages = ["split", "work", "merge"].map((name) => ({ name, joins: name === "merge" }));
      const [added] = await a.add([{ queue: "p/split", data: "0", run: { pipeline: "p", stages } }]);
      const split = await claimOne(b, { queues: ["p/split"] });
      const items = numbered(30).map(Number);
      await b.settle(split, { kind: "ack", result: JSON.stringify(items), each: true });
      const held = await Promise.all([a, b, c].map((port) => claim(port, { queues: ["p/work"], max: 10 })));
      const end = c.end(added!.id, { of: "runs" });
      await Promise.all([a, b, c].flatMap((port, i) => held[i]!.map((task) => ack(port, task, task.data))));
      const merges = await claim(a, { queues: ["p/merge"], max: 10 });
      expect(merges.map(({ data }) => JSON.parse(data as string) as unknown)).toEqual([items]);
      await ack(a, merges[0]!, '"all"');
      expect((await end).result).toBe('"all"');
    });

    test("a run that one opener cancels while others continue it ends completely", async () => {
      const { a, b } = await two();
      const stages = ["one", "two", "three"].map((name) => ({ name, joins: false }));
      const run = { pipeline: "p", stages };
      const added = await a.add(numbered(10).map((data) => ({ queue: "p/one", data, run })));
      const held = await claim(b, { queues: ["p/one"], max: 10 });
      await Promise.all([
        ...held.map((task) => ack(b, task, task.data)),
        ...added.map(({ id }) => a.cancelRun(id)),
      ]);
      expect(await claim(b, { queues: ["p/two"], max: 10 })).toEqual([]);
      for (const { id } of added) {
        const { run: told, parts } = await b.run(id);
        expect(told.state).toBe("cancelled");
        expect(parts.filter(({ state }) => state !== "done" && state !== "cancelled")).toEqual([]);
      }
    });

    test("concurrent adds of several openers are all stored, each under its own id", async () => {
      const { a, b, another } = await two();
      const c = (await another()).port;
      const added = await Promise.all(
        numbered(300).map((data, index) => addOne([a, b, c][index % 3]!, { data })),
      );
      expect(new Set(added.map(({ id }) => id)).size).toBe(300);
      expect((await claimNames(a)).toSorted()).toEqual(numbered(300).toSorted());
    });

    test("an idempotency key means the same task for all openers", async () => {
      const { a, b } = await two();
      const added = await Promise.all(
        numbered(20).map((_, index) => addOne(index % 2 ? a : b, { idempotencyKey: "k" })),
      );
      expect(new Set(added.map(({ id }) => id)).size).toBe(1);
      expect(added.filter(({ existing }) => !existing)).toHaveLength(1);
    });

    test("a fence is valid for all openers", async () => {
      const { a, b, clock } = await two();
      await addOne(a);
      const first = await claimOne(a);
      await clock.advance(LEASE);
      const second = await claimOne(b);
      expect(second.fence).toBeGreaterThan(first.fence);
      await refused(() => ack(a, first), "CLAIM_LOST");
      await refused(() => ack(b, first), "CLAIM_LOST");
      expect(await ack(a, second)).toBe("done");
    });

    test("a nack uses the backoff that another opener has set since", async () => {
      const { a, b, startedAt } = await two();
      const fixed = (delay: number) => ({ backoff: { type: "fixed", delay, max: HOUR, jitter: 0 } as const });
      const waits: number[] = [];
      for (const delay of [SECOND, MINUTE]) {
        await a.declare(QUEUE, fixed(delay));
        const { id } = await addOne(a);
        await nackWithBackoff(b, await claimOne(b));
        waits.push((await a.task(id)).dueAt! - startedAt);
      }
      expect(waits).toEqual([SECOND, MINUTE]);
    });

    test("a group is one group for all openers", async () => {
      const { a, b } = await two();
      await addNamed(a, ["1"], { groupKey: "g" });
      await addNamed(b, ["2"], { groupKey: "g" });
      const head = await claimOne(b);
      expect(head.data).toBe("1");
      expect(await claim(a)).toEqual([]);
      await ack(b, head);
      expect(await claimNames(a)).toEqual(["2"]);
    });

    test("a full queue is full for all openers", async () => {
      const { a, b } = await two();
      await a.declare(QUEUE, { maxDepth: 2 });
      await addNamed(b, ["1", "2"]);
      await refused(() => addOne(a), "QUEUE_FULL");
      await refused(() => addOne(b), "QUEUE_FULL");
    });
  });

  describe("publishing and subscribing by several openers", () => {
    test("a subscription of one opener gets what another publishes next", async () => {
      const { a, b } = await two();
      // Each has published before, so each has a cached copy of the subscriptions.
      for (const port of [a, b]) expect(await publish(port)).toEqual([]);
      for (const [index, group] of numbered(6, "g").entries()) {
        const [here, there] = index % 2 ? [a, b] : [b, a];
        await subscribed(here, group);
        expect(await publish(there)).toHaveLength(index + 1);
        expect((await there.subscriptions()).items).toHaveLength(index + 1);
      }
      await a.unsubscribe("order.placed", "g0");
      expect(await publish(b)).toHaveLength(5);
      await b.unsubscribe("order.placed", "g5");
      await subscribed(a, "last");
      expect(await publish(b)).toHaveLength(5);
    });

    test("no publish that begins after a subscribe misses it, while subscriptions change", async () => {
      const { a, b, another } = await two();
      const c = (await another()).port;
      const busy = new AbortController();
      const publishing = Promise.all(
        [a, b].map(async (port) => {
          while (!busy.signal.aborted) await Promise.all(numbered(5).map(() => publish(port)));
        }),
      );
      for (const group of numbered(8, "g")) {
        const queue = queueOf(group);
        await c.subscribe("order.*", group, {});
        await c.subscribe("order.placed", group, {});
        const sent = await Promise.all([a, b, c].map((port) => publish(port, { data: "marked" })));
        for (const tasks of sent) expect(tasks.map((task) => task.queue)).toContain(queue);
        const seen = new Set((await claim(c, { queues: [queue], max: 1_000 })).map(({ id }) => id));
        for (const tasks of sent) expect(seen).toContain(tasks.find((task) => task.queue === queue)!.id);
        await c.unsubscribe("order.placed", group);
        await c.unsubscribe("order.*", group);
        for (const port of [a, b]) expect(await publish(port)).toEqual([]);
      }
      busy.abort();
      await publishing;
      expect((await a.subscriptions()).items).toEqual([]);
      expect((await b.queues()).items).toEqual([]);
    });

    test("concurrent subscribes of several openers make one subscription", async () => {
      const { a, b } = await two();
      await Promise.all(numbered(10).map((_, i) => subscribed(i % 2 ? a : b, "g")));
      expect((await a.subscriptions()).items).toHaveLength(1);
      expect(await publish(b)).toHaveLength(1);
      const removed = await Promise.all([a, b, a, b].map((port) => port.unsubscribe("order.placed", "g")));
      expect(removed.filter(Boolean)).toHaveLength(1);
      expect(await publish(a)).toEqual([]);
    });
  });

  describe("one opener wakes a waiting claim of another", () => {
    test("an add wakes another opener's claim", async () => {
      const { a, b, clock } = await two();
      const answer = waiting(a);
      expect(await isPending(clock, answer)).toBe(true);
      await addOne(b, { data: "x" });
      expect(namesOf(await answer)).toEqual(["x"]);
    });

    test("a release wakes another opener's claim", async () => {
      const { a, b, clock } = await two();
      await addOne(b);
      const held = await claimOne(b);
      const answer = waiting(a);
      expect(await isPending(clock, answer)).toBe(true);
      await release(b, held);
      expect(await answer).toHaveLength(1);
    });

    test("the end of a group's head wakes another opener's claim", async () => {
      const { a, b, clock } = await two();
      await addNamed(b, ["1", "2"], { groupKey: "g" });
      const head = await claimOne(b);
      const answer = waiting(a);
      expect(await isPending(clock, answer)).toBe(true);
      await ack(b, head);
      expect(namesOf(await answer)).toEqual(["2"]);
    });

    test("resuming a queue wakes another opener's claim", async () => {
      const { a, b, clock } = await two();
      await b.pause(QUEUE, true);
      await addOne(b);
      const answer = waiting(a);
      expect(await isPending(clock, answer)).toBe(true);
      await b.pause(QUEUE, false);
      expect(await answer).toHaveLength(1);
    });

    test("a task that becomes due wakes another opener's claim", async () => {
      const { a, b, clock } = await two();
      const answer = waiting(a);
      expect(await isPending(clock, answer)).toBe(true);
      await addOne(b, { delay: 10 * SECOND });
      await clock.advance(10 * SECOND + SAFETY_POLL);
      expect(await answer).toHaveLength(1);
    });

    test("several tasks wake several claims of another opener", async () => {
      const { a, b } = await two();
      const answers = numbered(10).map((worker) => waiting(a, { worker }));
      await addNamed(b, numbered(10));
      expect((await Promise.all(answers)).flat()).toHaveLength(10);
    });
  });

  describe("one opener learns what another did", () => {
    test("an opener learns how a task ended that it waits for", async () => {
      const { a, b, clock } = await two();
      const { id } = await addOne(a);
      const end = a.end(id);
      expect(await isPending(clock, end)).toBe(true);
      await ack(b, await claimOne(b), "done elsewhere");
      expect(await end).toMatchObject({ state: "done", result: "done elsewhere" });
    });

    test("an opener learns that a task was cancelled while its worker holds it", async () => {
      const { a, b, clock } = await two();
      const worker = await joinWorker(a, "w");
      const { id } = await addOne(a);
      const held = await worker.claimOne();
      expect(await b.cancel(id)).toBe("claimed");
      await clock.advance(LEASE / 3);
      expect(await worker.notices.next()).toMatchObject({ kind: "cancel", id, fence: held.fence });
      expect(await release(a, held)).toBe("cancelled");
    });

    test("an opener learns that a queue was dropped while its worker holds a task of it", async () => {
      const { a, b, clock } = await two();
      const worker = await joinWorker(a, "w");
      await addOne(a);
      const held = await worker.claimOne();
      await b.drop(QUEUE);
      await clock.advance(LEASE / 3);
      expect(await worker.notices.next()).toMatchObject({ kind: "lost", id: held.id });
      await refused(() => ack(a, held), "CLAIM_LOST");
    });

    test("an opener learns a changed policy", async () => {
      const { a, b } = await two();
      await a.declare(QUEUE, { maxAttempts: 5, maxPayload: 100 });
      await addOne(a);
      await b.declare(QUEUE, { maxAttempts: 1, maxPayload: 1 }, { force: true });
      await refused(() => addOne(a, { data: "xx" }), "PAYLOAD_TOO_LARGE");
      const held = await claimOne(a);
      expect(held.maxAttempts).toBe(1);
      expect(await nack(a, held)).toBe("dead");
      expect((await a.declare(QUEUE, { maxAttempts: 5, maxPayload: 100 })).maxAttempts).toBe(1);
    });

    test("an opener learns that a queue was paused", async () => {
      const { a, b } = await two();
      await addOne(a);
      await b.pause(QUEUE, true);
      expect(await claim(a)).toEqual([]);
      expect((await a.queues()).items[0]!.paused).toBe(true);
    });

    test("an opener gets the events of another as they happen", async () => {
      const { a, b } = await two();
      const heard = listen(a);
      // The writing process must know that a reader listens.
      await a.declare(QUEUE, {});
      const { id } = await addOne(b);
      await ack(b, await claimOne(b));
      const seen = await eventsUntil(heard, "task.done");
      const about = seen.filter((event) => "taskId" in event && event.taskId === id);
      expect(about.map(({ type }) => type)).toEqual(["task.added", "task.claimed", "task.done"]);
    });

    test("an opener knows the workers of the other, also for retry elsewhere", async () => {
      const { a, b } = await two();
      const here = await joinWorker(a, "here");
      const there = await joinWorker(b, "there");
      expect((await a.workers()).items.map(({ id }) => id)).toEqual(["here", "there"]);
      expect((await b.stats(QUEUE)).workers).toBe(2);
      await addOne(a);
      await nack(a, await here.claimOne());
      expect(await here.claim()).toEqual([]);
      expect(await there.claim()).toHaveLength(1);
    });
  });

  describe("claims of an opener that is gone", () => {
    test("claims of an opener that hangs return when the lease ends", async () => {
      const { a, other, clock } = await two();
      const worker = await joinWorker(other.port, "w");
      const { id } = await addOne(a);
      await worker.claimOne();
      other.hang();
      await clock.advance(LEASE - 1);
      expect(await claim(a)).toEqual([]);
      await clock.advance(1);
      expect(await claimOne(a)).toMatchObject({ id, attempt: 2 });
    });

    test("claims of an opener that closed without leaving return when the lease ends", async () => {
      const { a, b, clock } = await two();
      const worker = await joinWorker(b, "w");
      await addOne(a);
      await worker.claimOne();
      const answer = waiting(a);
      await b.close();
      await clock.advance(LEASE - 1);
      expect(await isPending(clock, answer)).toBe(true);
      await clock.advance(1);
      expect((await answer)[0]!.attempt).toBe(2);
    });

    test("everything is still there when the store is opened again", async () => {
      const { port, another, clock } = await start();
      await port.declare(QUEUE, { lease: LEASE, maxAttempts: 3 });
      const ids = await addNamed(port, ["done", "held", "ready"]);
      const [done, held] = await claim(port, { max: 2 });
      await ack(port, done!, "r");
      await addOne(port, { delay: SECOND, idempotencyKey: "k" });
      await port.close();
      const again = (await another()).port;
      expect(await depths(again)).toEqual({ done: 1, claimed: 1, ready: 1, scheduled: 1 });
      expect((await again.task(ids[0]!)).result).toBe("r");
      expect((await again.queues()).items[0]!.policy).toMatchObject({ lease: LEASE, maxAttempts: 3 });
      expect((await addOne(again, { idempotencyKey: "k" })).existing).toBe(true);
      expect(await ack(again, held!, "late")).toBe("done");
      await clock.advance(SECOND);
      expect(await claim(again, { max: 9 })).toHaveLength(2);
      const next = await addOne(again);
      expect(next.id > ids[2]!).toBe(true);
      expect(await stateOf(again, ids[1]!)).toBe("done");
    });
  });
}
