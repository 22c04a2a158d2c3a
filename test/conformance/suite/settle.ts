import { describe, expect, test } from "vitest";
import type { Body, NewTask } from "../../../src/core/task/task.ts";
import {
  ack,
  addNamed,
  addOne,
  claimNames,
  claimOne,
  depths,
  failure,
  MINUTE,
  nack,
  newTask,
  QUEUE,
  refused,
  reject,
  release,
  SECOND,
  type Start,
  stateOf,
} from "./kit.ts";

export function settle(start: Start): void {
  describe("ack", () => {
    const results: [string, Body | null][] = [
      ["nothing", null],
      ["text", '{"ok":true}'],
      ["empty text", ""],
      ["text of many scripts", "日本語 🐝 \u0000"],
      ["bytes", Uint8Array.of(0, 255, 128, 10)],
    ];
    test.each(results)("an ack ends a task with its result: %s", async (_, result) => {
      const { port, clock, startedAt } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port, { worker: "me" });
      await clock.advance(SECOND);
      expect(await ack(port, held, result)).toBe("done");
      expect(await port.task(id)).toMatchObject({
        state: "done",
        result,
        worker: "me",
        attempt: 1,
        startedAt,
        endedAt: startedAt + SECOND,
        error: null,
      });
      expect(await port.end(id)).toEqual({ id, state: "done", result, error: null });
    });

    test("an ack accepts a result of exactly maxPayload bytes, and refuses a larger one", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxPayload: 6 });
      await addOne(port);
      const held = await claimOne(port);
      await refused(() => ack(port, held, "ééé!"), "PAYLOAD_TOO_LARGE", "7 bytes", "6", QUEUE);
      await refused(() => ack(port, held, new Uint8Array(7)), "PAYLOAD_TOO_LARGE");
      expect(await stateOf(port, held.id)).toBe("claimed");
      expect(await ack(port, held, "ééé")).toBe("done");
    });
  });

  describe("tasks that an ack adds", () => {
    test("an ack adds its tasks in order", async () => {
      const { port } = await start();
      await addOne(port);
      const adds = ["1", "2", "3"].map((data) => newTask({ queue: "next", data, groupKey: data }));
      await ack(port, await claimOne(port), "r", adds);
      expect(await claimNames(port, { queues: ["next"] })).toEqual(["1", "2", "3"]);
    });

    test("tasks added by an ack may have options", async () => {
      const { port } = await start();
      await addOne(port);
      const adds = [
        newTask({ delay: MINUTE }),
        newTask({ idempotencyKey: "k" }),
        newTask({ idempotencyKey: "k" }),
      ];
      await ack(port, await claimOne(port), null, adds);
      expect(await depths(port)).toEqual({ done: 1, scheduled: 1, ready: 1 });
    });

    const refusals: [string, Parameters<typeof refused>[1], NewTask[]][] = [
      [
        "too large",
        "PAYLOAD_TOO_LARGE",
        [newTask({ queue: "next" }), newTask({ queue: "next", data: "x".repeat(101) })],
      ],
      ["too many", "QUEUE_FULL", [1, 2, 3].map(() => newTask({ queue: "next" }))],
      ["not well-formed", "INVALID", [newTask({ queue: "next" }), newTask({ queue: "next", priority: 1e9 })]],
      [
        "too large, and others are for another queue",
        "PAYLOAD_TOO_LARGE",
        [newTask({ queue: "new" }), newTask({ queue: "next", data: "x".repeat(101) })],
      ],
    ];
    test.each(refusals)("an ack is refused if the tasks that it adds are %s", async (_, code, adds) => {
      const { port } = await start();
      await port.declare("next", { maxPayload: 100, maxDepth: 2 });
      const { id } = await addOne(port);
      const held = await claimOne(port);
      const before = await port.task(id);
      await refused(() => ack(port, held, "result", adds), code);
      expect(await port.task(id)).toEqual(before);
      expect(await port.history(id)).toEqual([]);
      expect(await depths(port, "next")).toEqual({});
      expect((await port.queues()).items.map(({ name }) => name)).toEqual(["next", QUEUE]);
      expect(await ack(port, held, "result", adds.slice(0, 1))).toBe("done");
    });

    test("an ack after the lease ended adds no tasks", async () => {
      const { port, clock } = await start();
      await addOne(port);
      const held = await claimOne(port);
      await clock.advance(30 * SECOND);
      await refused(() => ack(port, held, null, [newTask({ queue: "next" })]), "CLAIM_LOST");
      expect(await depths(port, "next")).toEqual({});
    });

    test("an ack may add a task to its own group", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await ack(port, await claimOne(port), null, [newTask({ groupKey: "g", data: "3" })]);
      expect(await claimNames(port)).toEqual(["2"]);
      expect(await depths(port)).toEqual({ done: 1, claimed: 1, waiting: 1 });
    });
  });

  describe("nack", () => {
    test("a nack without delay makes the task ready at its old position", async () => {
      const { port } = await start();
      const [id] = await addNamed(port, ["1", "2"]);
      expect(await nack(port, await claimOne(port))).toBe("ready");
      expect(await port.task(id!)).toMatchObject({
        attempt: 2,
        worker: null,
        startedAt: null,
        endedAt: null,
      });
      expect(await claimNames(port)).toEqual(["1", "2"]);
    });

    test("a nack with a delay schedules the task", async () => {
      const { port, clock, startedAt } = await start();
      const [id] = await addNamed(port, ["1", "2"]);
      expect(await nack(port, await claimOne(port), MINUTE)).toBe("scheduled");
      expect((await port.task(id!)).dueAt).toBe(startedAt + MINUTE);
      await clock.advance(MINUTE);
      expect(await claimNames(port)).toEqual(["1", "2"]);
    });

    test("a nack on the last attempt makes the task dead", async () => {
      const { port, startedAt } = await start();
      const { id } = await addOne(port, { maxAttempts: 1 });
      expect(await nack(port, await claimOne(port), MINUTE, failure("no", "TypeError"))).toBe("dead");
      expect(await port.task(id)).toMatchObject({
        state: "dead",
        attempt: 1,
        dueAt: null,
        endedAt: startedAt,
        error: { name: "TypeError", message: "no" },
      });
    });
  });

  test("a reject makes the task dead, whatever attempts are left", async () => {
    const { port } = await start();
    const { id } = await addOne(port);
    expect(await reject(port, await claimOne(port), failure("never"))).toBe("dead");
    expect(await port.task(id)).toMatchObject({ state: "dead", attempt: 1, error: { message: "never" } });
  });

  describe("release", () => {
    test("a release returns the task to its position without counting an attempt", async () => {
      const { port } = await start();
      await port.add([newTask({ data: "a", priority: 1 }), newTask({ data: "b" }), newTask({ data: "c" })]);
      const a = await claimOne(port);
      const b = await claimOne(port);
      expect(await release(port, b)).toBe("ready");
      await release(port, a);
      const again = await claimOne(port);
      expect(again).toMatchObject({ data: "a", attempt: 1 });
      expect(await claimNames(port)).toEqual(["b", "c"]);
    });

    test("a release never makes a task dead", async () => {
      const { port } = await start();
      await addOne(port, { maxAttempts: 1 });
      for (let times = 0; times < 5; times++) expect(await release(port, await claimOne(port))).toBe("ready");
    });

    test("a task that is released with a delay returns after it, and its attempt does not count", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { maxAttempts: 1 });
      await addNamed(port, ["later"]);
      expect(await release(port, await claimOne(port), { delay: MINUTE })).toBe("scheduled");
      await clock.advance(MINUTE - 1);
      expect(await port.task(id)).toMatchObject({ state: "scheduled" });
      await clock.advance(1);
      // At its old position: before the task that was added after it.
      expect(await claimOne(port)).toMatchObject({ id, attempt: 1 });
      expect(await claimNames(port)).toEqual(["later"]);
      expect(await port.history(id)).toMatchObject([{ attempt: 1, outcome: "released" }]);
    });

    test("a head that is released with a delay blocks its group until it has returned", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await release(port, await claimOne(port), { delay: MINUTE });
      expect(await claimNames(port)).toEqual([]);
      await clock.advance(MINUTE);
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("a release adds a row to the ledger only if the work had started", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await release(port, await claimOne(port), { started: false });
      expect(await port.history(id)).toEqual([]);
      await release(port, await claimOne(port));
      expect(await port.history(id)).toMatchObject([{ attempt: 1, outcome: "released", error: null }]);
    });
  });
}
