import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../src/core/queue/policy.ts";
import { addOne, claimOne, eventsUntil, listen, nack, QUEUE, SECOND, type Start } from "./kit.ts";

export function policies(start: Start): void {
  describe("policy of a queue", () => {
    test("a policy has the defaults where nothing was named", async () => {
      const { port } = await start();
      expect(await port.declare(QUEUE, {})).toEqual(DEFAULT_POLICY);
    });

    test("a declaration can name every field of a policy", async () => {
      const { port } = await start();
      const policy = {
        lease: 10 * SECOND,
        timeout: 20 * SECOND,
        maxAttempts: 3,
        backoff: { type: "fixed" as const, delay: 5, max: 7, jitter: 0 },
        elsewhere: 0,
        maxDepth: 10,
        maxBytes: 1_000,
        overflow: "drop-oldest" as const,
        expiredTo: "late",
        maxPayload: 100,
        retention: { age: 1, count: 2 },
        ttl: 30 * SECOND,
        verified: true,
        maxConcurrency: 4,
        rateLimit: [{ max: 5, per: 6, pace: true, unit: "tokens" }],
        groups: {
          concurrency: 3,
          rateLimit: [],
          fair: true,
          weight: { big: 3 },
          sticky: true,
        },
        window: { hours: "22:00-06:00", tz: "Asia/Tokyo" },
      };
      expect(await port.declare(QUEUE, policy)).toEqual(policy);
      expect((await port.queues()).items[0]!.policy).toEqual(policy);
    });

    test("a declaration changes only the fields that it names", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { lease: 5_000 });
      expect(await port.declare(QUEUE, { maxAttempts: 2 })).toEqual({
        ...DEFAULT_POLICY,
        lease: 5_000,
        maxAttempts: 2,
      });
    });

    test("a declaration of groups changes only the named fields, and null resets all of them", async () => {
      const { port } = await start();
      const policyOf = async () => (await port.queues({ queue: QUEUE })).items[0]!.policy.groups;
      await port.declare(QUEUE, { groups: { concurrency: 3, fair: true } });
      const groups = { ...DEFAULT_POLICY.groups, concurrency: 3, fair: true, sticky: true };
      const configured = await port.declare(QUEUE, { groups: { sticky: true } }, { force: true });
      expect(configured.groups).toEqual(groups);
      expect(await policyOf()).toEqual(groups);
      await port.declare(QUEUE, { groups: { concurrency: 4 } });
      expect(await policyOf()).toEqual({ ...groups, concurrency: 4 });
      await port.declare(QUEUE, { groups: null as never }, { force: true });
      expect(await policyOf()).toEqual(DEFAULT_POLICY.groups);
    });

    test("repeating the last declaration does not undo an operator's change", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { lease: 5_000, maxAttempts: 2 });
      await port.declare(QUEUE, { lease: 60_000 }, { force: true });
      expect((await port.declare(QUEUE, { lease: 5_000, maxAttempts: 2 })).lease).toBe(60_000);
      // The same declaration, with its fields in another order.
      expect((await port.declare(QUEUE, { maxAttempts: 2, lease: 5_000 })).lease).toBe(60_000);
    });

    test("a declaration that differs from the last one is applied", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { lease: 5_000 });
      await port.declare(QUEUE, { lease: 60_000 }, { force: true });
      expect(await port.declare(QUEUE, { lease: 5_000, maxAttempts: 2 })).toMatchObject({
        lease: 5_000,
        maxAttempts: 2,
      });
    });

    test("repeating earlier declarations of other fields changes nothing", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { lease: 5_000 });
      await port.declare(QUEUE, { verified: true });
      await port.declare(QUEUE, { lease: 60_000, verified: false }, { force: true });
      await port.declare(QUEUE, { lease: 5_000 });
      expect(await port.declare(QUEUE, { verified: true })).toMatchObject({ lease: 60_000, verified: false });
      expect(await port.declare(QUEUE, { verified: true, lease: 5_000 })).toMatchObject({ verified: true });
    });

    test("repeating a part of the last declaration does not undo an operator's change", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { lease: 5_000, verified: true });
      await port.declare(QUEUE, { verified: false }, { force: true });
      // As verify() of another program declares it, which names no other policy.
      expect(await port.declare(QUEUE, { verified: true })).toMatchObject({ lease: 5_000, verified: false });
      expect(await port.declare(QUEUE, { lease: 5_000, verified: true })).toMatchObject({ verified: false });
      expect(await port.declare(QUEUE, { lease: 6_000 })).toMatchObject({ lease: 6_000, verified: false });
      // The last declaration no longer names it.
      expect(await port.declare(QUEUE, { verified: true })).toMatchObject({ verified: true });
    });

    test("of two different declarations the later one counts", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { lease: 5_000 });
      await port.declare(QUEUE, { lease: 6_000 });
      expect((await port.declare(QUEUE, { lease: 5_000 })).lease).toBe(5_000);
    });

    test("force applies a declaration even if it was declared before", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { lease: 5_000 });
      await port.declare(QUEUE, { lease: 60_000 }, { force: true });
      expect((await port.declare(QUEUE, { lease: 5_000 }, { force: true })).lease).toBe(5_000);
    });

    test("an empty declaration changes nothing", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { lease: 5_000 });
      await port.declare(QUEUE, { lease: 60_000 }, { force: true });
      expect((await port.declare(QUEUE, {})).lease).toBe(60_000);
      expect((await port.declare(QUEUE, { lease: 5_000 })).lease).toBe(60_000);
    });

    test("a create-only declaration creates a queue", async () => {
      const { port } = await start();
      expect(await port.declare(QUEUE, { lease: 5_000 }, { create: true })).toMatchObject({ lease: 5_000 });
      expect(await port.declare(QUEUE, { lease: 6_000 })).toMatchObject({ lease: 6_000 });
    });

    test("a create-only declaration does not change an existing queue", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { lease: 5_000, verified: false }, { force: true });
      const events = listen(port);
      const other = { lease: 6_000, verified: true, maxDepth: 1, groups: { fair: true } };
      for (const policy of [other, other, { lease: 5_000 }, {}]) {
        expect(await port.declare(QUEUE, policy, { create: true })).toEqual({
          ...DEFAULT_POLICY,
          lease: 5_000,
        });
      }
      expect((await port.queues({ queue: QUEUE })).items[0]!.policy).toEqual({
        ...DEFAULT_POLICY,
        lease: 5_000,
      });
      await port.pause(QUEUE, true);
      expect((await eventsUntil(events, "queue.paused")).map(({ type }) => type)).toEqual(["queue.paused"]);
      // A refused declaration does not count as declared.
      expect(await port.declare(QUEUE, { lease: 6_000 })).toMatchObject({ lease: 6_000 });
    });

    test("a create-only declaration does not change a queue that its first task created", async () => {
      const { port } = await start();
      const [, policy] = await Promise.all([
        port.add([{ queue: QUEUE, data: "{}" }]),
        port.declare(QUEUE, { lease: 5_000 }, { create: true }),
      ]);
      expect(policy).toEqual(DEFAULT_POLICY);
    });

    test("a create-only declaration before the first task applies to it", async () => {
      const { port } = await start();
      const [, added] = await Promise.allSettled([
        port.declare(QUEUE, { maxDepth: 0 }, { create: true }),
        port.add([{ queue: QUEUE, data: "{}" }]),
      ]);
      expect(added).toMatchObject({ status: "rejected", reason: { code: "QUEUE_FULL" } });
    });

    test("a policy applies to tasks that are already in the queue", async () => {
      const { port } = await start();
      await addOne(port);
      await port.declare(QUEUE, { maxAttempts: 1 });
      const held = await claimOne(port);
      expect(held.maxAttempts).toBe(1);
      expect(await nack(port, held)).toBe("dead");
    });

    test("a claim returns the policies of its tasks", async () => {
      const { port } = await start();
      const policy = await port.declare(QUEUE, { timeout: 5_000 });
      await addOne(port);
      const { policies: found } = await port.claim({ queues: ["a", QUEUE], max: 1, worker: "w", wait: 0 });
      expect(found).toEqual({ [QUEUE]: policy });
    });

    test("a declaration emits an event only if it changes something", async () => {
      const { port } = await start();
      const events = listen(port);
      await port.declare(QUEUE, { lease: 5_000 });
      await port.declare(QUEUE, { lease: 5_000 });
      await port.declare(QUEUE, { lease: 5_000 }, { force: true });
      await port.pause(QUEUE, true);
      const seen = await eventsUntil(events, "queue.paused");
      expect(seen.map(({ type }) => type)).toEqual(["queue.created", "queue.updated", "queue.paused"]);
    });
  });
}
