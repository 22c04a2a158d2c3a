import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import type { NewMessage } from "../../../src/core/task/task.ts";
import {
  ack,
  claim,
  claimOne,
  DAY,
  depths,
  eventsUntil,
  HOUR,
  joinWorker,
  listen,
  numbered,
  passLong,
  refused,
  SAFETY_POLL,
  SECOND,
  type Start,
} from "./kit.ts";
import { publish, queueOf, subscribed } from "./topics.ts";

const TOPIC = "order.placed";

export function subscriptions(start: Start): void {
  lifetime(start);
  removal(start);
  refusals(start);
}

function lifetime(start: Start): void {
  describe("subscriptions", () => {
    test("a subscription is created once, with its queue and the declared policy", async () => {
      const { port, startedAt } = await start();
      expect(await port.subscribe(TOPIC, "a", { maxDepth: 5 })).toMatchObject({ maxDepth: 5 });
      expect(await port.subscribe(TOPIC, "a", {})).toMatchObject({ maxDepth: 5 });
      expect(await port.subscribe(TOPIC, "a", { ttl: HOUR })).toMatchObject({ maxDepth: 5, ttl: HOUR });
      expect((await port.subscriptions()).items).toEqual([
        { pattern: TOPIC, group: "a", queue: queueOf("a"), createdAt: startedAt },
      ]);
      expect((await port.queues()).items.map(({ name }) => name)).toEqual([queueOf("a")]);
    });

    test("a create-only subscribe creates a subscription, and does not change its policy", async () => {
      const { port } = await start();
      const create = { create: true };
      expect(await port.subscribe(TOPIC, "a", { maxDepth: 5 }, create)).toMatchObject({ maxDepth: 5 });
      expect(await port.subscribe(TOPIC, "a", { maxDepth: 1 }, create)).toMatchObject({ maxDepth: 5 });
      expect((await port.subscriptions()).items).toHaveLength(1);
    });

    test("subscriptions are listed in the order of creation, all or those that a topic reaches", async () => {
      const { port } = await start();
      for (const [pattern, group] of [
        ["z.*", "b"],
        ["#", "a"],
        ["a", "c"],
        ["z.*", "a"],
      ] as const)
        await port.subscribe(pattern, group, {});
      const named = async (topic?: string) =>
        (await port.subscriptions({ topic })).items.map(({ pattern, group }) => `${pattern} ${group}`);
      expect(await named()).toEqual(["z.* b", "# a", "a c", "z.* a"]);
      expect(await named("z.y")).toEqual(["z.* b", "# a", "z.* a"]);
      expect(await named("y")).toEqual(["# a"]);
    });

    test("a subscription stays when its workers are gone, and its tasks wait", async () => {
      const { port, clock } = await start();
      const [queue] = await subscribed(port, "a");
      const worker = await joinWorker(port, "w", { queues: [queue!] });
      await publish(port, { data: "1" });
      await ack(port, await worker.claimOne());
      await port.leave(worker.session);
      await publish(port, { data: "2" });
      await passLong(clock, 30 * DAY);
      await publish(port, { data: "3" });
      const next = await joinWorker(port, "next", { queues: [queue!] });
      expect((await next.claim({ max: 9 })).map(({ data }) => data)).toEqual(["2", "3"]);
    });

    test("a subscription without workers is bounded by its maxDepth and its ttl", async () => {
      const { port, clock } = await start();
      await port.subscribe(TOPIC, "a", { maxDepth: 2, ttl: SECOND });
      await publish(port);
      await publish(port);
      await refused(() => publish(port), "QUEUE_FULL");
      await clock.advance(SECOND + SAFETY_POLL);
      expect(await publish(port)).toHaveLength(1);
      expect(await depths(port, queueOf("a"))).toEqual({ ready: 1, expired: 2 });
    });

    test("a subscription does not get what was published before", async () => {
      const { port } = await start();
      await subscribed(port, "early");
      await publish(port);
      await subscribed(port, "late");
      expect(await depths(port, queueOf("late"))).toEqual({});
      await publish(port);
      expect(await depths(port, queueOf("late"))).toEqual({ ready: 1 });
    });

    test("subscribe and publish take effect in the order of the calls", async () => {
      const { port } = await start();
      const [none, , one, , gone] = await Promise.all([
        publish(port),
        port.subscribe(TOPIC, "a", {}),
        publish(port),
        port.unsubscribe(TOPIC, "a"),
        publish(port),
      ]);
      expect([none, one, gone].map((tasks) => tasks.length)).toEqual([0, 1, 0]);
    });

    test("events report subscriptions and their tasks", async () => {
      const { port, startedAt } = await start();
      const heard = listen(port);
      await subscribed(port, "a");
      const [added] = await publish(port);
      await port.unsubscribe(TOPIC, "a");
      const [at, queue] = [startedAt, queueOf("a")];
      expect(await eventsUntil(heard, "queue.deleted")).toEqual([
        { type: "queue.created", at, queue },
        { type: "subscription.created", at, queue, pattern: TOPIC, group: "a" },
        { type: "task.added", at, queue, taskId: added!.id },
        { type: "subscription.removed", at, queue, pattern: TOPIC, group: "a" },
        { type: "queue.deleted", at, queue },
      ]);
    });
  });
}

function removal(start: Start): void {
  describe("unsubscribe", () => {
    test("unsubscribing removes the group with its tasks, and does not affect other groups", async () => {
      const { port } = await start();
      const [a, b] = await subscribed(port, "a", "b");
      const [gone, kept] = await publish(port);
      const held = await claimOne(port, { queues: [a!] });
      await publish(port);
      expect(await port.unsubscribe(TOPIC, "a")).toBe(true);
      await refused(() => port.task(gone!.id), "TASK_NOT_FOUND");
      await refused(() => ack(port, held), "CLAIM_LOST");
      expect(await port.task(kept!.id)).toMatchObject({ queue: b });
      expect((await port.queues()).items.map(({ name }) => name)).toEqual([b]);
      expect((await publish(port)).map(({ queue }) => queue)).toEqual([b]);
    });

    test("unsubscribe answers whether there was a subscription", async () => {
      const { port } = await start();
      expect(await port.unsubscribe(TOPIC, "a")).toBe(false);
      await subscribed(port, "a");
      expect(await port.unsubscribe("order.*", "a")).toBe(false);
      expect(await port.unsubscribe(TOPIC, "a")).toBe(true);
      expect(await port.unsubscribe(TOPIC, "a")).toBe(false);
    });

    test("subscribing again after an unsubscribe starts with an empty queue", async () => {
      const { port } = await start();
      await port.subscribe(TOPIC, "a", { maxDepth: 1 });
      await publish(port, { idempotencyKey: "k" });
      await port.unsubscribe(TOPIC, "a");
      expect(await port.subscribe(TOPIC, "a", {})).toMatchObject({ maxDepth: null });
      expect(await depths(port, queueOf("a"))).toEqual({});
      expect(await publish(port, { idempotencyKey: "k" })).toMatchObject([{ existing: false }]);
    });

    test("dropping its queue removes a subscription", async () => {
      const { port } = await start();
      const [queue] = await subscribed(port, "a", "b");
      await publish(port);
      await port.drop(queue!);
      expect((await port.subscriptions()).items.map(({ group }) => group)).toEqual(["b"]);
      expect(await publish(port)).toHaveLength(1);
    });

    test("unsubscribing between publishes leaves no task behind", async () => {
      const { port } = await start();
      await subscribed(port, "a", "b");
      const answers = await Promise.all([
        ...numbered(40).map(() => publish(port)),
        port.unsubscribe(TOPIC, "a"),
        ...numbered(40).map(() => publish(port)),
      ]);
      expect(answers).toHaveLength(81);
      expect(await depths(port, queueOf("a"))).toEqual({});
      expect(await depths(port, queueOf("b"))).toEqual({ ready: 80 });
      expect(await claim(port, { queues: [queueOf("a")] })).toEqual([]);
    });
  });
}

const no = (value: unknown): never => value as never;

function refusals(start: Start): void {
  describe("bad topics, patterns, groups and messages", () => {
    const together = start.together();
    const topics = [
      "",
      ".",
      "a.",
      ".a",
      "a..b",
      "a b",
      "a/b",
      "é",
      "*",
      "a.#",
      "x".repeat(129),
      7,
      null,
      undefined,
    ];
    const patterns = ["", "a.", "a*", "*a", "a.##", "#.", "a b", "x".repeat(129), 7, null];
    const groups = ["", "a b", "-a", "a/", "x".repeat(129), 7, null, undefined];

    test.each(topics)("the topic %j is refused", async (topic) => {
      const { port } = together();
      await refused(() => publish(port, { topic: no(topic) }), "INVALID", "topic", "order.placed");
      if (topic !== undefined)
        await refused(() => port.subscriptions({ topic: no(topic) }), "INVALID", "topic");
    });

    test.each(patterns)("the pattern %j is refused", async (pattern) => {
      const { port } = together();
      await refused(() => port.subscribe(no(pattern), "a", {}), "INVALID", "pattern", "order.*");
      await refused(() => port.unsubscribe(no(pattern), "a"), "INVALID", "pattern");
    });

    test.each(groups)("the group %j is refused", async (group) => {
      const { port } = together();
      await refused(() => port.subscribe(TOPIC, no(group), {}), "INVALID", "group", "inventory");
    });

    test("a group and a pattern whose queue name would be too long are refused", async () => {
      const { port } = together();
      const call = () => port.subscribe("w".repeat(64), "g".repeat(64), {});
      await refused(call, "INVALID", "128", "135", "Shorten");
    });

    test("a subscribe with an invalid policy is refused, and creates nothing", async () => {
      const { port } = together();
      await refused(() => port.subscribe(TOPIC, "a", { maxDepth: -1 }), "INVALID", "maxDepth");
      expect((await port.subscriptions()).items).toEqual([]);
    });

    const messages: [string, Partial<NewMessage>, string][] = [
      ["a payload that is not a text", { data: no({}) }, "text or bytes"],
      ["a priority that is too high", { priority: 1_001 }, "priority"],
      ["headers that are a list", { headers: no(["a"]) }, "headers"],
      ["an empty idempotencyKey", { idempotencyKey: "" }, "idempotencyKey"],
    ];
    test.each(messages)("a message is refused for %s", async (_, fields, word) => {
      const { port } = together();
      await refused(() => publish(port, fields), "INVALID", word);
      await refused(() => settleWith(port, fields), "INVALID", word);
    });
  });
}

/** Values are checked before the claim: the error about them comes first. */
function settleWith(port: Port, fields: Partial<NewMessage>): Promise<unknown> {
  const ref = { id: "01980000-0000-7000-8000-000000000000", fence: 1, queue: "q", attempt: 1 };
  const adds = [{ topic: TOPIC, data: "x", ...fields }];
  return port.settle(ref, { kind: "ack", result: null, adds });
}
