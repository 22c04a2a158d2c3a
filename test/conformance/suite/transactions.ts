import { describe, expect, test } from "vitest";
import { type Verified, verificationQueue } from "../../../src/core/handler/verification.ts";
import {
  ack,
  addOne,
  claim,
  claimOne,
  depths,
  namesOf,
  newTask,
  QUEUE,
  refused,
  SECOND,
  type Start,
  stateOf,
  waiting,
} from "./kit.ts";
import { subscribed } from "./topics.ts";

/** A store that cannot join the caller's transaction must refuse it. */
export function noTransactions(start: Start): void {
  describe("stores without caller's transactions", () => {
    test("add with tx is refused, and adds nothing", async () => {
      const { port } = await start();
      await refused(() => port.add([newTask()], { tx: {} }), "UNSUPPORTED", "tx");
      expect(await claim(port)).toEqual([]);
    });

    test("adding a run with tx is refused, and begins no run", async () => {
      const { port } = await start();
      const run = { pipeline: "report", stages: [{ name: "first", joins: false }] };
      const task = newTask({ queue: "report/first", run });
      await refused(() => port.add([task], { tx: {} }), "UNSUPPORTED", "tx");
      expect(await claim(port, { queues: ["report/first"] })).toEqual([]);
    });

    test("publish with tx is refused, and adds nothing", async () => {
      const { port } = await start();
      const [queue] = await subscribed(port, "a");
      const message = { topic: "order.placed", data: "x" };
      await refused(() => port.publish(message, { tx: {} }), "UNSUPPORTED", "tx");
      expect(await claim(port, { queues: [queue!] })).toEqual([]);
    });

    test("ack with tx is refused, and the claim stays valid", async () => {
      const { port } = await start();
      await addOne(port);
      const held = await claimOne(port);
      await refused(() => port.settle(held, { kind: "ack", result: null }, { tx: {} }), "UNSUPPORTED", "tx");
      expect(await ack(port, held)).toBe("done");
    });
  });
}

export function transactions(start: Start): void {
  describe("publish in the caller's transaction", () => {
    const message = { topic: "order.placed", data: "x", idempotencyKey: "k" };

    test("a publish in the caller's transaction reaches all groups at the commit", async () => {
      const { port, begin } = await start();
      const queues = await subscribed(port, "a", "b");
      const tx = await begin();
      const published = await port.publish(message, { tx });
      expect(published.map(({ queue }) => queue)).toEqual(queues);
      for (const queue of queues) expect(await claim(port, { queues: [queue] })).toEqual([]);
      await tx.commit();
      for (const [index, queue] of queues.entries()) {
        const held = await claimOne(port, { queues: [queue] });
        expect(held).toMatchObject({ id: published[index]!.id, headers: { "dibs-topic": "order.placed" } });
      }
    });

    test("a publish in the caller's transaction has no effect after a rollback, and commits together with an ack", async () => {
      const { port, begin } = await start();
      const [queue] = await subscribed(port, "a");
      const first = await begin();
      await port.publish(message, { tx: first });
      await first.rollback();
      expect(await claim(port, { queues: [queue!] })).toEqual([]);
      await addOne(port);
      const held = await claimOne(port);
      const second = await begin();
      await port.settle(held, { kind: "ack", result: null, adds: [message] }, { tx: second });
      await second.commit();
      expect(await stateOf(port, held.id)).toBe("done");
      expect(await claim(port, { queues: [queue!] })).toHaveLength(1);
    });
  });

  describe("add in the caller's transaction", () => {
    test("an add in the caller's transaction becomes visible at the commit, and wakes waiting claims then", async () => {
      const { port, begin, awaitHints } = await start();
      const next = waiting(port);
      const tx = await begin();
      const [added] = await port.add([newTask({ data: "x" })], { tx });
      expect(added).toMatchObject({ state: "ready", existing: false });
      await refused(() => port.task(added!.id), "TASK_NOT_FOUND");
      await tx.commit();
      await awaitHints();
      expect((await next)[0]).toMatchObject({ id: added!.id, data: "x", attempt: 1 });
    });

    test("an add in the caller's transaction has no effect after a rollback", async () => {
      const { port, begin } = await start();
      const tx = await begin();
      const [added] = await port.add([newTask({ idempotencyKey: "k" })], { tx });
      await tx.rollback();
      await refused(() => port.task(added!.id), "TASK_NOT_FOUND");
      expect(await claim(port)).toEqual([]);
      expect(await addOne(port, { idempotencyKey: "k" })).toMatchObject({ existing: false });
      expect(await depths(port)).toEqual({ ready: 1 });
    });

    test("a task added in the caller's transaction keeps all its options", async () => {
      const { port, begin, startedAt } = await start();
      const tx = await begin();
      const fields = {
        data: "nul \0 and \u0001",
        headers: { a: "b" },
        priority: 7,
        maxAttempts: 2,
        ttl: SECOND,
      };
      const [one, bytes, later] = await port.add(
        [
          newTask(fields),
          newTask({ data: new Uint8Array([0, 1, 255]), contentType: "application/x", groupKey: "g" }),
          newTask({ delay: 500 }),
        ],
        { tx },
      );
      await tx.commit();
      expect(await port.task(one!.id)).toMatchObject({
        ...{ data: fields.data, headers: fields.headers, priority: 7, maxAttempts: 2, state: "ready" },
        expiresAt: startedAt + SECOND,
      });
      expect(await port.task(bytes!.id)).toMatchObject({
        data: new Uint8Array([0, 1, 255]),
        contentType: "application/x",
        groupKey: "g",
      });
      expect(await port.task(later!.id)).toMatchObject({ state: "scheduled", dueAt: startedAt + 500 });
      expect(await depths(port)).toEqual({ ready: 2, scheduled: 1 });
    });

    test("an add in the caller's transaction returns the task that has its key", async () => {
      const { port, begin } = await start();
      const { id } = await addOne(port, { idempotencyKey: "k" });
      const tx = await begin();
      const [added] = await port.add([newTask({ idempotencyKey: "k" })], { tx });
      await tx.commit();
      expect(added).toMatchObject({ id, existing: true, state: "ready" });
      expect(await depths(port)).toEqual({ ready: 1 });
    });

    test("an add in an open transaction does not block its group", async () => {
      const { port, begin } = await start();
      await addOne(port, { data: "1", groupKey: "g" });
      const tx = await begin();
      await port.add([newTask({ data: "2", groupKey: "g" })], { tx });
      const held = await claimOne(port);
      await addOne(port, { data: "3", groupKey: "g" });
      await ack(port, held);
      expect(namesOf([await claimOne(port)])).toEqual(["3"]);
      await tx.commit();
      expect(await depths(port)).toEqual({ waiting: 1, claimed: 1, done: 1 });
    });

    test("an add in the caller's transaction is refused as a whole if a payload is too large", async () => {
      const { port, begin } = await start();
      await port.declare("work", { maxPayload: 4 });
      const tx = await begin();
      await refused(() => port.add([newTask(), newTask({ data: "12345" })], { tx }), "PAYLOAD_TOO_LARGE");
      await tx.commit();
      expect(await claim(port)).toEqual([]);
    });

    test("a tx that has no query method is refused", async () => {
      const { port } = await start();
      await refused(() => port.add([newTask()], { tx: { not: "a client" } }), "INVALID", "query");
    });
  });

  describe("ack in the caller's transaction", () => {
    test("an ack in the caller's transaction counts at the commit, with its result and the tasks that it adds", async () => {
      const { port, begin } = await start();
      const { id } = await addOne(port, { groupKey: "g" });
      await addOne(port, { data: "next of the group", groupKey: "g" });
      const held = await claimOne(port);
      const tx = await begin();
      const word = { kind: "ack", result: "r", adds: [newTask({ queue: "other" })] } as const;
      expect(await port.settle(held, { ...word, adds: [...word.adds] }, { tx })).toEqual({ state: "done" });
      expect(await stateOf(port, id)).toBe("claimed");
      await tx.commit();
      expect(await port.task(id)).toMatchObject({ state: "done", result: "r" });
      expect(await port.history(id)).toMatchObject([{ outcome: "done", fence: held.fence }]);
      expect(namesOf([await claimOne(port)])).toEqual(["next of the group"]);
      expect(await depths(port, "other")).toEqual({ ready: 1 });
      await refused(() => port.settle(held, { kind: "ack", result: null }), "CLAIM_LOST");
    });

    test("an ack in the caller's transaction has no effect after a rollback, and the claim stays valid", async () => {
      const { port, begin } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      const tx = await begin();
      await port.settle(held, { kind: "ack", result: "lost" }, { tx });
      await tx.rollback();
      expect(await stateOf(port, id)).toBe("claimed");
      expect(await ack(port, held, "kept")).toBe("done");
      expect((await port.task(id)).result).toBe("kept");
    });

    test("an ack in the caller's transaction after the claim ended is refused", async () => {
      const { port, begin, clock } = await start();
      await addOne(port);
      const held = await claimOne(port, { lease: SECOND });
      await clock.advance(SECOND);
      await claimOne(port);
      const tx = await begin();
      await refused(() => port.settle(held, { kind: "ack", result: null }, { tx }), "CLAIM_LOST");
      await tx.rollback();
      expect(await depths(port)).toEqual({ claimed: 1 });
    });

    test("an ack in the caller's transaction waits for a verdict in a verified queue, with the tasks that it adds", async () => {
      const { port, begin } = await start();
      await port.declare(QUEUE, { verified: true });
      const { id } = await addOne(port, { groupKey: "g" });
      await addOne(port, { data: "next of the group", groupKey: "g" });
      const held = await claimOne(port);
      const tx = await begin();
      const word = { kind: "ack", result: "r", adds: [newTask({ queue: "other" })] } as const;
      expect(await port.settle(held, { ...word, adds: [...word.adds] }, { tx })).toEqual({
        state: "verifying",
      });
      expect(await stateOf(port, id)).toBe("claimed");
      await tx.commit();
      expect(await port.task(id)).toMatchObject({ state: "verifying", result: null });
      expect(await depths(port)).toEqual({ verifying: 1, waiting: 1 });
      expect(await depths(port, "other")).toEqual({});
      const asking = await claimOne(port, { queues: [verificationQueue(QUEUE)] });
      const of = JSON.parse(asking.data as string) as Verified;
      expect(of).toEqual({ id, fence: held.fence });
      const mine = await begin();
      await refused(
        () => port.settle(asking, { kind: "ack", result: null }, { tx: mine }),
        "INVALID",
        "verdict",
      );
      await mine.rollback();
      await port.settle(asking, { kind: "accept", of });
      expect(await port.task(id)).toMatchObject({ state: "done", result: "r" });
      expect(await depths(port, "other")).toEqual({ ready: 1 });
      expect(namesOf([await claimOne(port)])).toEqual(["next of the group"]);
    });

    test("a limit of the verification queue does not refuse an ack in the caller's transaction", async () => {
      const { port, begin } = await start();
      await port.declare(QUEUE, { verified: true });
      await port.declare(verificationQueue(QUEUE), { maxDepth: 0 });
      const { id } = await addOne(port);
      const tx = await begin();
      await port.settle(await claimOne(port), { kind: "ack", result: null }, { tx });
      await tx.commit();
      expect(await stateOf(port, id)).toBe("verifying");
      await claimOne(port, { queues: [verificationQueue(QUEUE)] });
    });

    test("an ack in the caller's transaction removes the steps", async () => {
      const { port, begin } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await port.step(held, "plan", "1");
      const tx = await begin();
      await port.settle(held, { kind: "ack", result: null }, { tx });
      await tx.commit();
      expect(await port.steps(id)).toEqual([]);
    });

    test("an ack of a cancelled task in the caller's transaction ends it cancelled", async () => {
      const { port, begin } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await port.cancel(id);
      const tx = await begin();
      expect(await port.settle(held, { kind: "ack", result: "r" }, { tx })).toEqual({ state: "cancelled" });
      await tx.commit();
      expect(await port.task(id)).toMatchObject({ state: "cancelled", result: null });
      expect(await depths(port)).toEqual({ cancelled: 1 });
    });
  });
}
