import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import { subscriptionQueue } from "../../../src/core/topic.ts";
import type { AddedTask, NewMessage } from "../../../src/core/task.ts";
import {
  ack,
  addOne,
  claim,
  claimNames,
  claimOne,
  depths,
  HOUR,
  isPending,
  nack,
  numbered,
  QUEUE,
  refused,
  reject,
  release,
  SAFETY_POLL,
  SECOND,
  type Start,
  stateOf,
  waiting,
} from "./kit.ts";

const TOPIC = "order.placed";

export const queueOf = (group: string, pattern = TOPIC): string => subscriptionQueue(pattern, group);

export function publish(port: Port, fields: Partial<NewMessage> = {}): Promise<AddedTask[]> {
  return port.publish({ topic: TOPIC, data: "{}", ...fields });
}

/** A subscription for each of these groups. */
export async function subscribed(port: Port, ...groups: string[]): Promise<string[]> {
  for (const group of groups) await port.subscribe(TOPIC, group, {});
  return groups.map((group) => queueOf(group));
}

export function topics(start: Start): void {
  matching(start);
  fanningOut(start);
  oneOfSeveral(start);
  withASuccess(start);
}

function matching(start: Start): void {
  describe("a pattern", () => {
    const cases: [pattern: string, reached: string[], missed: string[]][] = [
      ["order", ["order"], ["orders", "order.placed", "ORDER"]],
      ["order.placed", ["order.placed"], ["order", "order.placed.late", "placed"]],
      ["order.*", ["order.placed", "order.order"], ["order", "order.placed.late", "bill.placed"]],
      ["*.placed", ["order.placed", "bill.placed"], ["placed", "a.order.placed"]],
      ["*", ["order"], ["order.placed"]],
      ["*.*", ["order.placed"], ["order", "order.placed.late"]],
      ["#", ["order", "order.placed", "a.b.c.d.e"], []],
      ["order.#", ["order", "order.placed", "order.placed.late"], ["orders", "bill.order"]],
      ["#.late", ["late", "order.late", "order.placed.late"], ["late.order"]],
      ["order.#.late", ["order.late", "order.placed.late", "order.a.b.late"], ["order", "order.placed"]],
      ["order.*.#", ["order.placed", "order.placed.late"], ["order"]],
      ["#.*", ["order", "order.placed"], []],
      ["#.a.#.a.#", ["a.a", "x.a.y.a.z"], ["a", "x.a.y"]],
      ["#.#", ["order", "order.placed"], []],
      ["constructor.*", ["constructor.toString"], ["order.toString"]],
    ];

    test.each(cases)("%s reaches what it says, and nothing else", async (pattern, reached, missed) => {
      const { port } = await start();
      await port.subscribe(pattern, "group", {});
      for (const topic of reached) {
        expect(await port.subscriptions(topic)).toHaveLength(1);
        expect(await publish(port, { topic })).toHaveLength(1);
      }
      for (const topic of missed) {
        expect(await port.subscriptions(topic)).toEqual([]);
        expect(await publish(port, { topic })).toEqual([]);
      }
      expect(await depths(port, queueOf("group", pattern))).toEqual({ ready: reached.length });
    });
  });
}

function fanningOut(start: Start): void {
  describe("publishing", () => {
    test("gives every group a task of its own, in the order they subscribed", async () => {
      const { port, startedAt } = await start();
      const queues = await subscribed(port, "inventory", "analytics", "mail");
      const added = await publish(port, { data: "order 1" });
      expect(added).toEqual(
        queues.map((queue) => ({ id: expect.any(String), queue, state: "ready", existing: false })),
      );
      expect(new Set(added.map(({ id }) => id)).size).toBe(3);
      for (const queue of queues) {
        expect(await claimOne(port, { queues: [queue] })).toMatchObject({
          data: "order 1",
          headers: { "dibs-topic": TOPIC },
          createdAt: startedAt,
        });
      }
    });

    test("says that it reached nobody where nobody subscribed, and is no error", async () => {
      const { port } = await start();
      expect(await publish(port)).toEqual([]);
      await port.subscribe("bill.#", "group", {});
      expect(await publish(port, { idempotencyKey: "k", groupKey: "g", delay: SECOND })).toEqual([]);
      expect(await port.queues()).toHaveLength(1);
    });

    test("reaches a group once for each of its patterns: each is a subscription", async () => {
      const { port } = await start();
      await port.subscribe(TOPIC, "audit", {});
      await port.subscribe("order.*", "audit", {});
      expect((await publish(port)).map(({ queue }) => queue)).toEqual([
        queueOf("audit"),
        queueOf("audit", "order.*"),
      ]);
    });

    test("is one task for those that compete in a group", async () => {
      const { port } = await start();
      const [queue] = await subscribed(port, "inventory");
      await subscribed(port, "inventory");
      await Promise.all(numbered(20).map((data) => publish(port, { data })));
      const taken = await Promise.all(
        ["a", "b", "c"].map((worker) => claimNames(port, { queues: [queue!], max: 7, worker })),
      );
      expect(taken.flat().toSorted()).toEqual(numbered(20).toSorted());
    });

    test("keeps everything that a task may have", async () => {
      const { port, startedAt } = await start();
      await subscribed(port, "a", "b");
      const fields = { priority: 7, groupKey: "g", idempotencyKey: "k", maxAttempts: 2, headers: { h: "1" } };
      const bytes = { data: new Uint8Array([0, 1, 255]), contentType: "application/x" };
      for (const { id } of await publish(port, { ...fields, ...bytes, ttl: HOUR, delay: SECOND })) {
        expect(await port.task(id)).toMatchObject({
          ...fields,
          ...bytes,
          state: "scheduled",
          headers: { h: "1", "dibs-topic": TOPIC },
          dueAt: startedAt + SECOND,
          expiresAt: startedAt + HOUR,
        });
      }
    });

    test("tells the topic in a header of its own, whatever headers are given", async () => {
      const { port } = await start();
      await port.subscribe("order.#", "audit", {});
      const [added] = await publish(port, { headers: { "dibs-topic": "another" } });
      expect((await port.task(added!.id)).headers["dibs-topic"]).toBe(TOPIC);
    });

    test("wakes a claim that waits in each group", async () => {
      const { port, clock } = await start();
      const queues = await subscribed(port, "a", "b");
      const waits = queues.map((queue) => waiting(port, { queues: [queue] }));
      for (const wait of waits) expect(await isPending(clock, wait)).toBe(true);
      await publish(port, { data: "x" });
      for (const wait of waits) expect((await wait)[0]).toMatchObject({ data: "x" });
    });

    test("in the order of the calls is the order in every group", async () => {
      const { port } = await start();
      const queues = await subscribed(port, "a", "b");
      await Promise.all(numbered(200).map((data) => publish(port, { data })));
      for (const queue of queues) expect(await claimNames(port, { queues: [queue] })).toEqual(numbered(200));
    });

    test("mixes with adds, and each keeps its place", async () => {
      const { port } = await start();
      const [queue] = await subscribed(port, "a", "b");
      await Promise.all(
        numbered(90).map((data, i) =>
          i % 3 === 0 ? publish(port, { data }) : addOne(port, { queue: queue!, data }),
        ),
      );
      expect(await claimNames(port, { queues: [queue!] })).toEqual(numbered(90));
      expect(await depths(port, queueOf("b"))).toEqual({ ready: 30 });
    });

    test("with a delay is due in every group when its time has come", async () => {
      const { port, clock } = await start();
      const queues = await subscribed(port, "a", "b");
      await publish(port, { delay: SECOND });
      const waits = queues.map((queue) => waiting(port, { queues: [queue] }));
      expect(await isPending(clock, waits[0]!)).toBe(true);
      await clock.advance(SECOND);
      for (const wait of waits) expect(await wait).toHaveLength(1);
    });

    test("with a groupKey keeps each group's own order", async () => {
      const { port } = await start();
      const [a, b] = await subscribed(port, "a", "b");
      for (const data of ["1", "2"]) await publish(port, { data, groupKey: "customer" });
      const first = await claimOne(port, { queues: [a!] });
      expect(await claim(port, { queues: [a!] })).toEqual([]);
      // What happens in one group does not hold up the other.
      await ack(port, await claimOne(port, { queues: [b!] }));
      expect(await claimNames(port, { queues: [b!] })).toEqual(["2"]);
      await ack(port, first);
      expect(await claimNames(port, { queues: [a!] })).toEqual(["2"]);
    });

    test("the same key again reaches nobody twice", async () => {
      const { port } = await start();
      await subscribed(port, "a", "b");
      const first = await publish(port, { idempotencyKey: "k" });
      const again = await publish(port, { idempotencyKey: "k", data: "other" });
      expect(again).toEqual(first.map((task) => ({ ...task, existing: true })));
      await subscribed(port, "late");
      expect((await publish(port, { idempotencyKey: "k" })).map(({ existing }) => existing)).toEqual([
        true,
        true,
        false,
      ]);
      for (const group of ["a", "b", "late"])
        expect(await depths(port, queueOf(group))).toEqual({ ready: 1 });
    });

    test("the same key at the same moment reaches everybody once", async () => {
      const { port } = await start();
      await subscribed(port, "a", "b");
      await Promise.all(numbered(20).map(() => publish(port, { idempotencyKey: "k" })));
      for (const group of ["a", "b"]) expect(await depths(port, queueOf(group))).toEqual({ ready: 1 });
    });

    test("is matched with thousands of subscriptions, of which few match", async () => {
      const { port } = await start();
      await Promise.all(numbered(2_000, "other-").map((word) => port.subscribe(`${word}.*`, "group", {})));
      await subscribed(port, "a", "b", "c");
      expect((await publish(port)).map(({ queue }) => queue)).toEqual(["a", "b", "c"].map((g) => queueOf(g)));
    });
  });
}

function oneOfSeveral(start: Start): void {
  describe("of several groups", () => {
    test("one that is full refuses for all: nobody has the task", async () => {
      const { port } = await start();
      await subscribed(port, "before");
      await port.subscribe(TOPIC, "slow", { maxDepth: 2 });
      await subscribed(port, "after");
      await publish(port);
      await publish(port);
      await refused(() => publish(port), "QUEUE_FULL", queueOf("slow"), "maxDepth");
      for (const group of ["before", "slow", "after"]) {
        expect(await depths(port, queueOf(group))).toEqual({ ready: 2 });
      }
      await ack(port, await claimOne(port, { queues: [queueOf("slow")] }));
      expect(await publish(port)).toHaveLength(3);
    });

    test("one that is full does not refuse what it has already", async () => {
      const { port } = await start();
      await port.subscribe(TOPIC, "slow", { maxDepth: 1 });
      await publish(port, { idempotencyKey: "k" });
      expect(await publish(port, { idempotencyKey: "k" })).toMatchObject([{ existing: true }]);
    });

    test("of publishes at one moment those that fit are taken, and the others refused one by one", async () => {
      const { port } = await start();
      await subscribed(port, "free");
      await port.subscribe(TOPIC, "slow", { maxDepth: 3 });
      const answers = await Promise.allSettled(numbered(5).map((data) => publish(port, { data })));
      expect(answers.map(({ status }) => status)).toEqual([
        ...["fulfilled", "fulfilled", "fulfilled"],
        ...["rejected", "rejected"],
      ]);
      expect(await claimNames(port, { queues: [queueOf("free")] })).toEqual(numbered(3));
    });

    test("one that takes less refuses a payload for all", async () => {
      const { port } = await start();
      await subscribed(port, "a");
      await port.subscribe(TOPIC, "small", { maxPayload: 10 });
      await refused(() => publish(port, { data: "x".repeat(11) }), "PAYLOAD_TOO_LARGE", queueOf("small"));
      expect(await depths(port, queueOf("a"))).toEqual({});
      expect(await publish(port, { data: "x".repeat(10) })).toHaveLength(2);
    });

    test("one that is paused takes its task and keeps it, the others go on", async () => {
      const { port } = await start();
      const [paused, other] = await subscribed(port, "paused", "other");
      await port.pause(paused!, true);
      expect(await publish(port)).toHaveLength(2);
      expect(await claim(port, { queues: [paused!] })).toEqual([]);
      expect(await claim(port, { queues: [other!] })).toHaveLength(1);
      await port.pause(paused!, false);
      expect(await claim(port, { queues: [paused!] })).toHaveLength(1);
    });

    test("one has a time to live, and only its task expires", async () => {
      const { port, clock } = await start();
      await port.subscribe(TOPIC, "brief", { ttl: SECOND });
      const [, lasting] = await subscribed(port, "brief", "lasting");
      const [brief, other] = await publish(port);
      await clock.advance(SECOND + SAFETY_POLL);
      expect(await stateOf(port, brief!.id)).toBe("expired");
      expect(await stateOf(port, other!.id)).toBe("ready");
      expect(await claim(port, { queues: [lasting!] })).toHaveLength(1);
    });

    test("each fails, retries and has dead letters and counts of its own", async () => {
      const { port } = await start();
      const [bad, good] = await subscribed(port, "bad", "good");
      const [dead] = await publish(port);
      await release(port, await claimOne(port, { queues: [bad!] }));
      await nack(port, await claimOne(port, { queues: [bad!], worker: "w1" }));
      await reject(port, await claimOne(port, { queues: [bad!], worker: "w2" }));
      await ack(port, await claimOne(port, { queues: [good!] }), "1");
      expect(await depths(port, bad)).toEqual({ dead: 1 });
      expect(await depths(port, good)).toEqual({ done: 1 });
      expect((await port.list({ queue: bad!, state: "dead", limit: 9 })).tasks).toMatchObject([
        { id: dead!.id },
      ]);
      expect(await port.patterns(bad!, "header:dibs-topic", 9)).toMatchObject([{ pattern: TOPIC, count: 1 }]);
      expect(await port.redrive(bad!, {}, 0)).toBe(1);
      expect(await depths(port, good)).toEqual({ done: 1 });
    });
  });
}

function withASuccess(start: Start): void {
  describe("what a success publishes", () => {
    test("commits with it, beside what it adds", async () => {
      const { port } = await start();
      const [a, b] = await subscribed(port, "a", "b");
      await addOne(port);
      const held = await claimOne(port);
      const message = { topic: TOPIC, data: "published" };
      const adds = [{ queue: "next", data: "added" }, message, { topic: "nobody.listens", data: "x" }];
      await port.settle(held, { kind: "ack", result: null, adds });
      for (const queue of [a!, b!])
        expect(await claimNames(port, { queues: [queue] })).toEqual(["published"]);
      expect(await claimNames(port, { queues: ["next"] })).toEqual(["added"]);
    });

    test("is refused with it where one group is full, and the claim holds", async () => {
      const { port } = await start();
      await port.subscribe(TOPIC, "full", { maxDepth: 0 });
      await subscribed(port, "a");
      await addOne(port);
      const held = await claimOne(port);
      const settle = () =>
        port.settle(held, { kind: "ack", result: null, adds: [{ topic: TOPIC, data: "x" }] });
      await refused(settle, "QUEUE_FULL", queueOf("full"));
      expect(await stateOf(port, held.id)).toBe("claimed");
      expect(await depths(port, queueOf("a"))).toEqual({});
      await port.unsubscribe(TOPIC, "full");
      expect(await settle()).toEqual({ state: "done" });
      expect(await depths(port, queueOf("a"))).toEqual({ ready: 1 });
    });

    test("is not published by a failure, nor by one whose claim is lost", async () => {
      const { port, clock } = await start();
      await subscribed(port, "a");
      await addOne(port);
      const held = await claimOne(port, { lease: SECOND });
      await clock.advance(2 * SECOND);
      const adds = [{ topic: TOPIC, data: "x" }];
      await refused(() => port.settle(held, { kind: "ack", result: null, adds }), "CLAIM_LOST");
      expect(await depths(port, queueOf("a"))).toEqual({});
      expect(await depths(port, QUEUE)).toEqual({ ready: 1 });
    });
  });
}
