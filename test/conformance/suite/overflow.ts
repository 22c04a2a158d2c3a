import { describe, expect, test } from "vitest";
import { EXPIRED_HEADERS } from "../../../src/core/queue/expired-to.ts";
import { UNLIMITED_ATTEMPTS } from "../../../src/core/queue/policy.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  depths,
  HOUR,
  MINUTE,
  nack,
  newTask,
  QUEUE,
  refused,
  release,
  type Start,
  stateOf,
} from "./kit.ts";

const LATE = "late";
const CONTINUES = (why: "ttl" | "dropped"): Record<string, string> => ({
  [EXPIRED_HEADERS.from]: QUEUE,
  [EXPIRED_HEADERS.why]: why,
});

export function overflow(start: Start): void {
  describe("overflow", () => {
    test("a full queue with drop-oldest takes new tasks, and its oldest expire", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 2, overflow: "drop-oldest" });
      const { id } = await addOne(port, { data: "1" });
      await addNamed(port, ["2", "3", "4"]);
      expect(await depths(port)).toEqual({ ready: 2, expired: 2 });
      expect(await stateOf(port, id)).toBe("expired");
      expect(await claimNames(port, { max: 9 })).toEqual(["3", "4"]);
    });

    test("drop-oldest drops the lowest priority first, also a new task", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 2, overflow: "drop-oldest" });
      for (const priority of [1, 5, 3, 0]) await addOne(port, { data: `${priority}`, priority });
      expect(await claimNames(port, { max: 9 })).toEqual(["5", "3"]);
    });

    test("drop-oldest with a maxDepth of zero drops every new task", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 0, overflow: "drop-oldest" });
      await addNamed(port, ["1", "2"]);
      expect(await depths(port)).toEqual({ expired: 2 });
    });

    test("drop-oldest leaves claimed and delayed tasks alone", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 2, overflow: "drop-oldest" });
      await addOne(port, { data: "claimed" });
      const held = await claimOne(port);
      await addOne(port, { delay: HOUR });
      await addNamed(port, ["1", "2"]);
      expect(await depths(port)).toEqual({ claimed: 1, scheduled: 1, ready: 1, expired: 1 });
      expect(await claimNames(port)).toEqual(["2"]);
      expect(await ack(port, held)).toBe("done");
    });

    test("drop-oldest keeps the last tasks of an add that is too large", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 3, overflow: "drop-oldest" });
      await port.add(Array.from({ length: 1_500 }, (_, index) => newTask({ data: `${index}` })));
      expect(await claimNames(port, { max: 9 })).toEqual(["1497", "1498", "1499"]);
    });

    test("tasks that an ack adds to a full queue drop the oldest ones", async () => {
      const { port } = await start();
      await port.declare("next", { maxDepth: 1, overflow: "drop-oldest" });
      await addOne(port, { queue: "next", data: "old" });
      await addOne(port);
      const adds = [newTask({ queue: "next", data: "new" })];
      await port.settle(await claimOne(port), { kind: "ack", result: null, adds });
      expect(await claimNames(port, { queues: ["next"], max: 9 })).toEqual(["new"]);
    });

    test("a group continues when its head is dropped", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 2, overflow: "drop-oldest" });
      await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      expect(await depths(port)).toEqual({ ready: 1, waiting: 1, expired: 1 });
      expect(await claimNames(port)).toEqual(["2"]);
    });

    test("maxBytes refuses adds above it", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxBytes: 5 });
      await addOne(port, { data: "1234" });
      await refused(() => addOne(port, { data: "é" }), "QUEUE_FULL", "maxBytes", "4 bytes", "5", QUEUE);
      await addOne(port, { data: "5" });
      await claim(port, { max: 1 });
      await addOne(port, { data: new Uint8Array(4) });
      await refused(() => addOne(port, { data: "x" }), "QUEUE_FULL");
    });

    test("maxBytes with drop-oldest drops as many as needed, also the new task", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxBytes: 5, overflow: "drop-oldest" });
      await addNamed(port, ["12", "34"]);
      await addOne(port, { data: "567" });
      expect(await depths(port)).toEqual({ ready: 2, expired: 1 });
      await addOne(port, { data: "larger than all" });
      expect(await depths(port)).toEqual({ expired: 4 });
    });

    test("overflow other than refuse and drop-oldest is refused, and so is expiredTo of the queue itself", async () => {
      const { port } = await start();
      await refused(
        () => port.declare(QUEUE, { overflow: "drop" as never }),
        "INVALID",
        "drop-oldest",
        "drop",
      );
      await refused(() => port.declare(QUEUE, { expiredTo: QUEUE }), "INVALID", "expiredTo", QUEUE);
      await refused(() => port.declare(QUEUE, { expiredTo: "-" }), "INVALID", "queue name");
      await refused(() => port.declare(QUEUE, { maxBytes: -1 }), "INVALID", "maxBytes");
    });
  });

  describe("expiredTo", () => {
    test("a task that expires continues in another queue", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { expiredTo: LATE });
      const headers = { own: "x" };
      const { id } = await addOne(port, { data: "1", ttl: MINUTE, priority: 7, headers });
      await clock.advance(MINUTE);
      expect(await stateOf(port, id)).toBe("expired");
      expect(await claimOne(port, { queues: [LATE] })).toMatchObject({
        data: "1",
        priority: 7,
        headers: { ...headers, ...CONTINUES("ttl") },
      });
    });

    test("an expired payload of bytes continues with its content type", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { ttl: MINUTE, expiredTo: LATE });
      await addOne(port, { data: new Uint8Array([0, 1, 255]), contentType: "image/png" });
      await clock.advance(MINUTE);
      expect(await claimOne(port, { queues: [LATE] })).toMatchObject({
        data: new Uint8Array([0, 1, 255]),
        contentType: "image/png",
      });
    });

    test("a dropped task continues in another queue", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 1, overflow: "drop-oldest", expiredTo: LATE });
      await addNamed(port, ["1", "2", "3"]);
      const dropped = await claim(port, { queues: [LATE], max: 9 });
      expect(dropped.map(({ data, headers }) => [data, headers])).toEqual([
        ["1", CONTINUES("dropped")],
        ["2", CONTINUES("dropped")],
      ]);
    });

    test("a task that is released after its time-to-live continues in another queue", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { expiredTo: LATE });
      await addOne(port, { ttl: MINUTE });
      const held = await claimOne(port, { lease: HOUR });
      await clock.advance(2 * MINUTE);
      expect(await release(port, held)).toBe("expired");
      expect((await claimOne(port, { queues: [LATE] })).headers).toEqual(CONTINUES("ttl"));
    });

    test("a task in the other queue has the time-to-live of that queue, and may continue in a third", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { ttl: MINUTE, expiredTo: LATE });
      await port.declare(LATE, { ttl: MINUTE, expiredTo: "last" });
      await addOne(port);
      await clock.advance(MINUTE);
      expect(await depths(port, LATE)).toEqual({ ready: 1 });
      await clock.advance(MINUTE);
      expect((await claimOne(port, { queues: ["last"] })).headers[EXPIRED_HEADERS.from]).toBe(LATE);
    });

    test("purged and cancelled tasks do not continue", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { expiredTo: LATE });
      const { id } = await addOne(port, { ttl: MINUTE });
      await port.cancel(id);
      await addOne(port, { ttl: MINUTE });
      await port.purge(QUEUE);
      expect(await depths(port, LATE)).toEqual({});
    });
  });

  describe("attempts without a limit", () => {
    test("a task of a queue with maxAttempts null never dies of its failures", async () => {
      const { port } = await start();
      const backoff = { type: "fixed", delay: 0, max: 0, jitter: 0 } as const;
      await port.declare(QUEUE, { maxAttempts: UNLIMITED_ATTEMPTS, backoff, elsewhere: 0 });
      await addOne(port);
      for (let attempt = 1; attempt <= 12; attempt++) {
        const held = await claimOne(port);
        expect(held.attempt).toBe(attempt);
        expect(await nack(port, held)).toBe("ready");
      }
    });
  });
}
