import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import { subscriptionQueue } from "../../../src/core/topic/topic.ts";
import type { AddedTask, NewMessage } from "../../../src/core/task/task.ts";
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

/** Subscribes each of these groups. */
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
  describe("patterns", () => {
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

    test.each(cases)("the pattern %s matches exactly the right topics", async (pattern, reached, missed) => {
      const { port } = await start();
      await port.subscribe(pattern, "group", {});
      for (const topic of reached) {
        expect((await port.subscriptions({ topic })).items).toHaveLength(1);
        expect(await publish(port, { topic })).toHaveLength(1);
      }
      for (const topic of missed) {
        expect((await port.subscriptions({ topic })).items).toEqual([]);
        expect(await publish(port, { topic })).toEqual([]);
      }
      expect(await depths(port, queueOf("group", pattern))).toEqual({ ready: reached.length });
    });
  });
}

function fanningOut(start: Start): void {
  describe("publish", () => {
    test("publishing adds a task for every group, in the order of their subscriptions", async () => {
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

    test("publishing without subscribers adds nothing and is not an error", async () => {
      const { port } = await start();
      expect(await publish(port)).toEqual([]);
      await port.subscribe("bill.#", "group", {});
      expect(await publish(port, { idempotencyKey: "k", groupKey: "g", delay: SECOND })).toEqual([]);
      expect((await port.queues()).items).toHaveLength(1);
    });

    test("a group gets one task for each of its patterns that match", async () => {
      const { port } = await start();
      await port.subscribe(TOPIC, "audit", {});
      await port.subscribe("order.*", "audit", {});
      expect((await publish(port)).map(({ queue }) => queue)).toEqual([
        queueOf("audit"),
        queueOf("audit", "order.*"),
      ]);
    });

    test("workers of one group compete for one task", async () => {
      const { port } = await start();
      const [queue] = await subscribed(port, "inventory");
      await subscribed(port, "inventory");
      await Promise.all(numbered(20).map((data) => publish(port, { data })));
      const taken = await Promise.all(
        ["a", "b", "c"].map((worker) => claimNames(port, { queues: [queue!], max: 7, worker })),
      );
      expect(taken.flat().toSorted()).toEqual(numbered(20).toSorted());
    });

    test("a published task keeps all its options", async () => {
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

    test("every published task has its topic in a header, whatever headers are given", async () => {
      const { port } = await start();
      await port.subscribe("order.#", "audit", {});
      const [added] = await publish(port, { headers: { "dibs-topic": "another" } });
      expect((await port.task(added!.id)).headers["dibs-topic"]).toBe(TOPIC);
    });

    test("publishing wakes a waiting claim in each group", async () => {
      const { port, clock } = await start();
      const queues = await subscribed(port, "a", "b");
      const waits = queues.map((queue) => waiting(port, { queues: [queue] }));
      for (const wait of waits) expect(await isPending(clock, wait)).toBe(true);
      await publish(port, { data: "x" });
      for (const wait of waits) expect((await wait)[0]).toMatchObject({ data: "x" });
    });

    test("every group gets messages in the order of the calls", async () => {
      const { port } = await start();
      const queues = await subscribed(port, "a", "b");
      await Promise.all(numbered(200).map((data) => publish(port, { data })));
      for (const queue of queues) expect(await claimNames(port, { queues: [queue] })).toEqual(numbered(200));
    });

    test("published and added tasks keep the order of the calls", async () => {
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

    test("a delayed message becomes due in every group", async () => {
      const { port, clock } = await start();
      const queues = await subscribed(port, "a", "b");
      await publish(port, { delay: SECOND });
      const waits = queues.map((queue) => waiting(port, { queues: [queue] }));
      expect(await isPending(clock, waits[0]!)).toBe(true);
      await clock.advance(SECOND);
      for (const wait of waits) expect(await wait).toHaveLength(1);
    });

    test("a message with a groupKey keeps the order within each consumer group", async () => {
      const { port } = await start();
      const [a, b] = await subscribed(port, "a", "b");
      for (const data of ["1", "2"]) await publish(port, { data, groupKey: "customer" });
      const first = await claimOne(port, { queues: [a!] });
      expect(await claim(port, { queues: [a!] })).toEqual([]);
      // A task in one consumer group does not block the other.
      await ack(port, await claimOne(port, { queues: [b!] }));
      expect(await claimNames(port, { queues: [b!] })).toEqual(["2"]);
      await ack(port, first);
      expect(await claimNames(port, { queues: [a!] })).toEqual(["2"]);
    });

    test("publishing with the same key again adds no second task to any group", async () => {
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

    test("concurrent publishes with the same key add one task to each group", async () => {
      const { port } = await start();
      await subscribed(port, "a", "b");
      await Promise.all(numbered(20).map(() => publish(port, { idempotencyKey: "k" })));
      for (const group of ["a", "b"]) expect(await depths(port, queueOf(group))).toEqual({ ready: 1 });
    });

    test("publishing works with thousands of subscriptions of which few match", async () => {
      const { port } = await start();
      await Promise.all(numbered(2_000, "other-").map((word) => port.subscribe(`${word}.*`, "group", {})));
      await subscribed(port, "a", "b", "c");
      expect((await publish(port)).map(({ queue }) => queue)).toEqual(["a", "b", "c"].map((g) => queueOf(g)));
    });
  });
}

function oneOfSeveral(start: Start): void {
  describe("several groups", () => {
    test("one full group refuses the publish for all groups", async () => {
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

    test("a full group does not refuse a key that it already has", async () => {
      const { port } = await start();
      await port.subscribe(TOPIC, "slow", { maxDepth: 1 });
      await publish(port, { idempotencyKey: "k" });
      expect(await publish(port, { idempotencyKey: "k" })).toMatchObject([{ existing: true }]);
    });

    test("of concurrent publishes those that fit are accepted, and the others are refused individually", async () => {
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

    test("a payload that is too large for one group is refused for all groups", async () => {
      const { port } = await start();
      await subscribed(port, "a");
      await port.subscribe(TOPIC, "small", { maxPayload: 10 });
      await refused(() => publish(port, { data: "x".repeat(11) }), "PAYLOAD_TOO_LARGE", queueOf("small"));
      expect(await depths(port, queueOf("a"))).toEqual({});
      expect(await publish(port, { data: "x".repeat(10) })).toHaveLength(2);
    });

    test("a paused group stores its task, and the others continue", async () => {
      const { port } = await start();
      const [paused, other] = await subscribed(port, "paused", "other");
      await port.pause(paused!, true);
      expect(await publish(port)).toHaveLength(2);
      expect(await claim(port, { queues: [paused!] })).toEqual([]);
      expect(await claim(port, { queues: [other!] })).toHaveLength(1);
      await port.pause(paused!, false);
      expect(await claim(port, { queues: [paused!] })).toHaveLength(1);
    });

    test("a ttl of one group expires only its task", async () => {
      const { port, clock } = await start();
      await port.subscribe(TOPIC, "brief", { ttl: SECOND });
      const [, lasting] = await subscribed(port, "brief", "lasting");
      const [brief, other] = await publish(port);
      await clock.advance(SECOND + SAFETY_POLL);
      expect(await stateOf(port, brief!.id)).toBe("expired");
      expect(await stateOf(port, other!.id)).toBe("ready");
      expect(await claim(port, { queues: [lasting!] })).toHaveLength(1);
    });

    test("each group has its own failures, retries, dead letters and counts", async () => {
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
  describe("messages published by a success", () => {
    test("an ack publishes and adds in one commit", async () => {
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

    test("an ack is refused if one group is full, and the claim stays valid", async () => {
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

    test("a failure and a lost claim publish nothing", async () => {
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
