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
  isPending,
  joinWorker,
  listen,
  makeDead,
  MINUTE,
  nack,
  passLong,
  QUEUE,
  refused,
  SECOND,
  type Start,
  stateOf,
  waiting,
} from "./kit.ts";

const AGAIN = { kind: "again" } as const;
const PROMOTE = { kind: "promote" } as const;

/** Changes of tasks by an operator or a producer: update, promote, run again. */
export function change(start: Start): void {
  describe("changing the priority of a task", () => {
    test("a higher priority brings a ready task to the head of the line", async () => {
      const { port } = await start();
      const [, , third] = await addNamed(port, ["1", "2", "3"]);
      expect(await port.change(third!, { kind: "update", priority: 5 })).toEqual({
        state: "ready",
        changed: true,
      });
      expect(await port.task(third!)).toMatchObject({ state: "ready", priority: 5 });
      expect(await claimNames(port)).toEqual(["3", "1", "2"]);
    });

    test("a lower priority puts a ready task behind the others, and the old one returns it to its position", async () => {
      const { port } = await start();
      const [first] = await addNamed(port, ["1", "2"]);
      await port.change(first!, { kind: "update", priority: -1 });
      await port.change(first!, { kind: "update", priority: 0 });
      expect(await claimNames(port)).toEqual(["1", "2"]);
    });

    test("the same priority changes nothing", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { priority: 3 });
      expect(await port.change(id, { kind: "update", priority: 3 })).toEqual({
        state: "ready",
        changed: false,
      });
    });

    test("an urgent task stays urgent", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { urgent: true, data: "urgent" });
      await addOne(port, { priority: 1_000, data: "high" });
      await port.change(id, { kind: "update", priority: -1_000 });
      expect(await port.task(id)).toMatchObject({ urgent: true, priority: -1_000 });
      expect(await claimNames(port)).toEqual(["urgent", "high"]);
    });

    test("a changed priority orders groups, and does not change the order inside a group", async () => {
      const { port } = await start();
      await addNamed(port, ["a1"], { groupKey: "a" });
      const [b1, b2] = await addNamed(port, ["b1", "b2"], { groupKey: "b" });
      await port.change(b2!, { kind: "update", priority: 9 });
      expect(await port.task(b2!)).toMatchObject({ state: "waiting", priority: 9 });
      await port.change(b1!, { kind: "update", priority: 1 });
      const held = await claim(port, { max: 2 });
      expect(held.map(({ data }) => data)).toEqual(["b1", "a1"]);
      for (const each of held) await ack(port, each);
      expect((await claimOne(port)).priority).toBe(9);
    });

    test("a failed task in the retry-elsewhere line gets its new priority there", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { elsewhere: MINUTE });
      const one = await joinWorker(port, "one");
      const two = await joinWorker(port, "two");
      const { id } = await addOne(port, { data: "failed" });
      await nack(port, await one.claimOne());
      await addOne(port, { data: "other", priority: 1 });
      await port.change(id, { kind: "update", priority: 2 });
      expect((await two.claimOne()).data).toBe("failed");
    });

    test("a scheduled task has the new priority when it is due", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { data: "late", delay: MINUTE });
      await port.change(id, { kind: "update", priority: 1 });
      await addOne(port, { data: "early" });
      await clock.advance(MINUTE);
      expect(await claimNames(port)).toEqual(["late", "early"]);
    });

    test("a changed priority keeps the turn of its group in a fair queue with limits", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { groups: { concurrency: 2, fair: true, sticky: false } });
      await addNamed(port, ["a1", "a2", "a3"], { groupKey: "a" });
      const [b1] = await addNamed(port, ["b1"], { groupKey: "b" });
      await port.change(b1!, { kind: "update", priority: 1 });
      expect(await claimNames(port)).toEqual(["b1", "a1", "a2"]);
    });
  });

  describe("changing the due time of a task", () => {
    test("a ready task with a delay is scheduled, and ready again when it is due", async () => {
      const { port, clock, startedAt } = await start();
      const { id } = await addOne(port);
      expect(await port.change(id, { kind: "update", delay: MINUTE })).toEqual({
        state: "scheduled",
        changed: true,
      });
      expect(await port.task(id)).toMatchObject({ state: "scheduled", dueAt: startedAt + MINUTE });
      expect(await claim(port)).toEqual([]);
      await clock.advance(MINUTE);
      expect((await claimOne(port)).id).toBe(id);
    });

    test("a scheduled task gets an earlier due time, and a waiting claim gets it then", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { delay: HOUR });
      const answer = waiting(port);
      await port.change(id, { kind: "update", delay: SECOND });
      expect(await isPending(clock, answer)).toBe(true);
      await clock.advance(SECOND);
      expect((await answer)[0]!.id).toBe(id);
    });

    test("a delay of 0 makes a scheduled task ready now", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { delay: HOUR });
      expect(await port.change(id, { kind: "update", delay: 0 })).toEqual({ state: "ready", changed: true });
      expect((await claimOne(port)).id).toBe(id);
    });

    test("the head of a group with a new delay steps aside, and joins behind the others", async () => {
      const { port, clock } = await start();
      const [first] = await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      await port.change(first!, { kind: "update", delay: SECOND });
      const second = await claimOne(port);
      expect(second.data).toBe("2");
      await clock.advance(SECOND);
      await ack(port, second);
      const third = await claimOne(port);
      expect(third.data).toBe("3");
      await ack(port, third);
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("a failed head of a group blocks the others until its new due time", async () => {
      const { port, clock } = await start();
      const [first] = await addNamed(port, ["1", "2"], { groupKey: "g" });
      await nack(port, await claimOne(port), HOUR);
      await port.change(first!, { kind: "update", delay: MINUTE });
      expect(await claim(port)).toEqual([]);
      await clock.advance(MINUTE);
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("a delayed task still expires at its time", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { ttl: MINUTE });
      await port.change(id, { kind: "update", delay: HOUR });
      await clock.advance(MINUTE);
      expect(await stateOf(port, id)).toBe("expired");
    });
  });

  describe("changing the data of a task", () => {
    test("the next worker gets the new data", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { data: '{"v":1}', headers: { kind: "a" } });
      expect(await port.change(id, { kind: "update", data: '{"v":2}' })).toEqual({
        state: "ready",
        changed: true,
      });
      expect(await claimOne(port)).toMatchObject({ data: '{"v":2}', headers: { kind: "a" } });
    });

    test("data in bytes and its content type reach the worker", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { delay: HOUR });
      const data = new Uint8Array([0, 1, 255]);
      await port.change(id, { kind: "update", data, contentType: "image/x" });
      await port.change(id, PROMOTE);
      const held = await claimOne(port);
      expect(held.contentType).toBe("image/x");
      expect([...(held.data as Uint8Array)]).toEqual([0, 1, 255]);
    });

    test("data, priority and delay change together", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { data: "old" });
      await port.change(id, { kind: "update", data: "new", priority: 4, delay: MINUTE });
      expect(await port.task(id)).toMatchObject({ state: "scheduled", data: "new", priority: 4 });
      await clock.advance(MINUTE);
      expect(await claimOne(port)).toMatchObject({ id, data: "new", priority: 4 });
    });

    test("data above maxPayload is refused, and nothing changes", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxPayload: 10 });
      const { id } = await addOne(port, { data: "short" });
      const large = "x".repeat(11);
      await refused(
        () => port.change(id, { kind: "update", data: large, priority: 2 }),
        "PAYLOAD_TOO_LARGE",
        "maxPayload",
      );
      expect(await port.task(id)).toMatchObject({ data: "short", priority: 0 });
    });
  });

  describe("promoting a task", () => {
    test("a scheduled task is ready at once, and a waiting claim gets it", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { delay: HOUR });
      const answer = waiting(port);
      expect(await port.change(id, PROMOTE)).toEqual({ state: "ready", changed: true });
      expect((await answer)[0]!.id).toBe(id);
      expect(await depths(port)).toEqual({ claimed: 1 });
    });

    test("a promoted task in backoff is ready at once, at its position", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { data: "1" });
      await nack(port, await claimOne(port), HOUR);
      await addNamed(port, ["2"]);
      await port.change(id, PROMOTE);
      expect(await claimNames(port)).toEqual(["1", "2"]);
    });

    test("a promoted task of a group joins it behind the tasks that are there", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { data: "late", groupKey: "g", delay: HOUR });
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      expect(await port.change(id, PROMOTE)).toEqual({ state: "waiting", changed: true });
      for (const name of ["1", "2", "late"]) {
        const held = await claimOne(port);
        expect(held.data).toBe(name);
        await ack(port, held);
      }
    });

    test("promoting a task that is ready or waiting changes nothing", async () => {
      const { port } = await start();
      const [first, second] = await addNamed(port, ["1", "2"], { groupKey: "g" });
      expect(await port.change(first!, PROMOTE)).toEqual({ state: "ready", changed: false });
      expect(await port.change(second!, PROMOTE)).toEqual({ state: "waiting", changed: false });
    });

    test("a promoted task expires after its time-to-live", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { delay: HOUR, ttl: MINUTE });
      await port.change(id, PROMOTE);
      await clock.advance(MINUTE);
      expect(await stateOf(port, id)).toBe("expired");
    });
  });

  describe("running a task again", () => {
    test("a done task runs again under its id, with its ledger and a note", async () => {
      const { port, startedAt } = await start();
      const { id } = await addOne(port);
      await ack(port, await claimOne(port), "first");
      expect(await port.change(id, AGAIN)).toEqual({ state: "ready", changed: true });
      expect(await port.task(id)).toMatchObject({
        state: "ready",
        attempt: 1,
        result: null,
        endedAt: null,
        worker: null,
      });
      expect(await depths(port)).toEqual({ ready: 1 });
      const held = await claimOne(port);
      expect(held).toMatchObject({ id, attempt: 1 });
      await ack(port, held, "second");
      expect(await port.task(id)).toMatchObject({ state: "done", result: "second" });
      const history = await port.history(id);
      expect(history.map(({ outcome, attempt }) => [outcome, attempt])).toEqual([
        ["done", 1],
        ["done", 1],
      ]);
      expect(history[0]!.log).toEqual([{ at: startedAt, text: "Runs again. It was done." }]);
      expect(history[1]!.log).toBeUndefined();
    });

    test("a cancelled task runs again at the end of the line", async () => {
      const { port } = await start();
      const [first] = await addNamed(port, ["1", "2"]);
      await port.cancel(first!);
      await port.change(first!, AGAIN);
      expect(await claimNames(port)).toEqual(["2", "1"]);
    });

    test("an expired task runs again, and does not expire a second time", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { ttl: MINUTE });
      await clock.advance(MINUTE);
      expect(await stateOf(port, id)).toBe("expired");
      await port.change(id, AGAIN);
      expect(await port.task(id)).toMatchObject({ state: "ready", expiresAt: null });
      await passLong(clock, HOUR);
      expect((await claimOne(port)).id).toBe(id);
    });

    test("a dead task runs again as after a redrive: failures reset, steps kept unless fresh", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { maxAttempts: 1 });
      const held = await claimOne(port);
      await port.step(held, "plan", "1");
      expect(await nack(port, held)).toBe("dead");
      expect(await port.change(id, AGAIN)).toEqual({ state: "ready", changed: true });
      expect(await port.steps(id)).toHaveLength(1);
      expect(await nack(port, await claimOne(port))).toBe("dead");
      await port.change(id, { kind: "again", fresh: true });
      expect(await port.steps(id)).toEqual([]);
      expect(await claimOne(port)).toMatchObject({ id, attempt: 1 });
      expect((await port.history(id)).map(({ outcome }) => outcome)).toEqual(["failed", "failed"]);
    });

    test("running a task again emits the event of a redrive", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await ack(port, await claimOne(port));
      const events = listen(port);
      const seen = eventsUntil(events, "task.redriven");
      // The listener is registered before this change: calls take effect in their order.
      await port.stats(QUEUE);
      await port.change(id, AGAIN);
      expect((await seen).at(-1)).toMatchObject({ type: "task.redriven", queue: QUEUE, taskId: id });
    });

    test("a task that runs again has its idempotency key again", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { idempotencyKey: "k" });
      await port.cancel(id);
      await port.change(id, AGAIN);
      expect(await addOne(port, { idempotencyKey: "k" })).toMatchObject({
        id,
        existing: true,
        state: "ready",
      });
    });

    test("a task that runs again does not take its unique key from the task that has it now", async () => {
      const { port } = await start();
      const unique = { key: "u", while: "pending", on: "keep" } as const;
      const { id: first } = await addOne(port, { unique });
      await ack(port, await claimOne(port));
      const { id: second } = await addOne(port, { unique });
      expect(second).not.toBe(first);
      await port.change(first, AGAIN);
      expect(await addOne(port, { unique })).toMatchObject({ id: second, existing: true });
    });

    test("a task of a group that runs again waits behind its head", async () => {
      const { port } = await start();
      const [first] = await addNamed(port, ["1", "2"], { groupKey: "g" });
      await ack(port, await claimOne(port));
      expect(await port.change(first!, AGAIN)).toEqual({ state: "waiting", changed: true });
      await ack(port, await claimOne(port));
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("a caller that waits for the result gets that of the new execution", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await ack(port, await claimOne(port), "first");
      await port.change(id, AGAIN);
      const result = port.end(id);
      await ack(port, await claimOne(port), "second");
      expect(await result).toMatchObject({ state: "done", result: "second" });
    });
  });

  describe("changes that the state of a task does not allow", () => {
    const changes = [{ kind: "update", priority: 1 }, PROMOTE] as const;

    async function refusedAll(port: Port, id: string, ...words: string[]): Promise<void> {
      for (const each of changes) await refused(() => port.change(id, each), "WRONG_STATE", id, ...words);
    }

    test("a claimed task cannot be changed, promoted or run again", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await refusedAll(port, id, "claimed", "cancel");
      await refused(() => port.change(id, AGAIN), "WRONG_STATE", "claimed");
      expect(await ack(port, held)).toBe("done");
    });

    test("a task that has ended cannot be changed or promoted", async () => {
      const { port } = await start();
      await refusedAll(port, await makeDead(port), "dead", "redrive");
      const { id } = await addOne(port);
      await ack(port, await claimOne(port));
      await refusedAll(port, id, "done", "runAgain");
      const { id: other } = await addOne(port);
      await port.cancel(other);
      await refusedAll(port, other, "cancelled");
    });

    test("a parked task cannot be changed", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await port.settle(await claimOne(port), { kind: "park", signal: "go", timeout: null });
      await refusedAll(port, id, "parked", "signal");
    });

    test("a task that has not ended cannot run again", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await refused(() => port.change(id, AGAIN), "WRONG_STATE", "ready");
    });

    test("a finished task of a run cannot run again", async () => {
      const { port } = await start();
      const run = { pipeline: "p", stages: [{ name: "one", joins: false }] };
      const { id } = await addOne(port, { queue: "p/one", run });
      await ack(port, await claimOne(port, { queues: ["p/one"] }));
      await refused(() => port.change(id, AGAIN), "WRONG_STATE", "run");
    });

    test("changing an unknown task is TASK_NOT_FOUND", async () => {
      const { port } = await start();
      const nobody = "01980000-0000-7000-8000-000000000000";
      for (const each of [...changes, AGAIN])
        await refused(() => port.change(nobody, each), "TASK_NOT_FOUND", nobody);
    });

    test("a change of the wrong shape is INVALID", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const wrong = [
        {},
        { kind: "other" },
        { kind: "update" },
        { kind: "update", priority: 1_001 },
        { kind: "update", delay: -1 },
        { kind: "update", contentType: "a/b" },
        { kind: "update", priority: 1, at: 5 },
        { kind: "promote", delay: 1 },
        { kind: "again", fresh: 1 },
      ];
      for (const each of wrong) await refused(() => port.change(id, each as never), "INVALID");
    });
  });
}
