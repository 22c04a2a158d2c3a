import { describe, expect, test } from "vitest";
import { eachEvent } from "../../each-event.ts";
import type { DibsEvent } from "../../../src/core/event/events.ts";
import {
  ack,
  addNamed,
  addOne,
  claimOne,
  eventsUntil,
  failure,
  joinWorker,
  listen,
  makeDead,
  MINUTE,
  nack,
  numbered,
  QUEUE,
  reject,
  release,
  SECOND,
  type Start,
} from "./kit.ts";

function typesOf(events: DibsEvent[]): string[] {
  return events.map(({ type }) => type);
}

export function events(start: Start): void {
  describe("events", () => {
    test("events report the life of a task in order", async () => {
      const { port, clock, startedAt } = await start();
      await port.declare(QUEUE, { maxAttempts: 3 });
      const heard = listen(port);
      const { id } = await addOne(port);
      await nack(port, await claimOne(port, { worker: "a" }), 0, failure("first"));
      await release(port, await claimOne(port, { worker: "b" }));
      const held = await claimOne(port, { worker: "c" });
      await clock.advance(SECOND);
      await port.progress(held, 0.5, "half");
      await ack(port, held);
      const about = { queue: QUEUE, taskId: id };
      expect(await eventsUntil(heard, "task.done")).toEqual([
        { type: "task.added", at: startedAt, ...about },
        { type: "task.claimed", at: startedAt, ...about, worker: "a", attempt: 1 },
        { type: "task.failed", at: startedAt, ...about, worker: "a", attempt: 1, detail: "Error: first" },
        { type: "task.claimed", at: startedAt, ...about, worker: "b", attempt: 2 },
        { type: "task.released", at: startedAt, ...about, worker: "b" },
        { type: "task.claimed", at: startedAt, ...about, worker: "c", attempt: 2 },
        { type: "task.progress", at: startedAt + SECOND, ...about, detail: "half" },
        { type: "task.done", at: startedAt + SECOND, ...about, worker: "c", attempt: 2 },
      ]);
    });

    test("events report every kind of end, and a redrive", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, {});
      const heard = listen(port);
      await addOne(port);
      await reject(port, await claimOne(port), failure("never"));
      await port.redrive(QUEUE, {}, 0);
      await port.cancel((await claimOne(port)).id);
      await clock.advance(30 * SECOND);
      await addOne(port, { ttl: 1 });
      await clock.advance(1);
      expect(typesOf(await eventsUntil(heard, "task.expired"))).toEqual([
        "task.added",
        "task.claimed",
        "task.dead",
        "task.redriven",
        "task.claimed",
        "task.cancelled",
        "task.added",
        "task.expired",
      ]);
    });

    test("events report changes of queues", async () => {
      const { port, startedAt } = await start();
      const heard = listen(port);
      await port.declare(QUEUE, { lease: MINUTE });
      await port.pause(QUEUE, true);
      await port.pause(QUEUE, true);
      await port.pause(QUEUE, false);
      await port.purge(QUEUE);
      await port.drop(QUEUE);
      const types = ["created", "updated", "paused", "resumed", "purged", "deleted"];
      expect(await eventsUntil(heard, "queue.deleted")).toEqual(
        types.map((type) => ({ type: `queue.${type}`, at: startedAt, queue: QUEUE })),
      );
    });

    test("events report workers that join, leave and are lost", async () => {
      const { port, clock, hang } = await start();
      const heard = listen(port);
      const worker = await joinWorker(port, "a");
      await joinWorker(port, "b");
      await port.leave(worker.session);
      hang();
      await clock.advance(30 * SECOND);
      const seen = await eventsUntil(heard, "worker.lost");
      expect(seen.map((event) => [event.type, "worker" in event && event.worker])).toEqual([
        ["worker.joined", "a"],
        ["worker.joined", "b"],
        ["worker.left", "a"],
        ["worker.lost", "b"],
      ]);
    });

    test("an event arrives without waiting for the poll", async () => {
      const { port } = await start();
      const heard = listen(port);
      const first = heard.next();
      await addOne(port);
      expect((await first).value).toMatchObject({ type: "queue.created" });
      expect((await heard.next()).value).toMatchObject({ type: "task.added" });
      const next = heard.next();
      const { id } = await addOne(port);
      expect((await next).value).toMatchObject({ type: "task.added", taskId: id });
    });

    test("events during the work of a busy reader arrive without delay", async () => {
      const { port } = await start();
      const heard = listen(port);
      await port.declare(QUEUE, {});
      expect((await heard.next()).value).toMatchObject({ type: "queue.created" });
      for (let count = 0; count < 5; count++) {
        const { id } = await addOne(port);
        expect((await heard.next()).value).toMatchObject({ type: "task.added", taskId: id });
      }
    });

    test("a reader gets all events from its call on, and none from before", async () => {
      const { port } = await start();
      await makeDead(port);
      const heard = listen(port);
      const { id } = await addOne(port);
      expect((await heard.next()).value).toMatchObject({ type: "task.added", taskId: id });
    });

    test("every reader gets all events", async () => {
      const { port } = await start();
      const listeners = [listen(port), listen(port), listen(port)];
      await addNamed(port, numbered(3));
      await port.pause(QUEUE, true);
      for (const heard of listeners) {
        const expected = ["queue.created", "task.added", "task.added", "task.added", "queue.paused"];
        expect(typesOf(await eventsUntil(heard, "queue.paused"))).toEqual(expected);
      }
    });

    test("a reader gets any number of events", async () => {
      const { port } = await start();
      const heard = listen(port);
      const ids = await addNamed(port, numbered(2_500));
      await port.pause(QUEUE, true);
      const seen = await eventsUntil(heard, "queue.paused");
      expect(seen.flatMap((event) => ("taskId" in event ? [event.taskId] : []))).toEqual(ids);
    });

    test("the events end when the signal aborts", async () => {
      const { port } = await start();
      const stop = new AbortController();
      const heard = eachEvent(port.events(stop.signal));
      const next = heard.next();
      stop.abort();
      expect((await next).done).toBe(true);
      expect((await heard.next()).done).toBe(true);
    });

    test("the events end when the reader stops", async () => {
      const { port } = await start();
      const heard = listen(port);
      await addOne(port);
      for await (const event of heard) {
        expect(event.type).toBe("queue.created");
        break;
      }
      expect((await heard.next()).done).toBe(true);
    });
  });

  describe("more events than readers can take in", () => {
    test("readers get a dead letter and a paused queue in a flood of adds", async () => {
      const { port } = await start();
      await port.declare(QUEUE, {});
      const heard = listen(port);
      for (let round = 0; round < 3; round++) await addNamed(port, numbered(9_000));
      const held = await claimOne(port);
      await reject(port, held, failure("never"));
      await port.pause(QUEUE, true);
      const seen = await eventsUntil(heard, "queue.paused");
      const told = seen.filter(({ type }) => type === "task.dead" || type === "queue.paused");
      expect(told).toMatchObject([{ type: "task.dead", taskId: held.id }, { type: "queue.paused" }]);
    });
  });

  describe("a reader that is too slow", () => {
    test("a reader that is too slow gets the number of missed events", async () => {
      const { port, clock } = await start();
      const heard = listen(port);
      await port.declare(QUEUE, {});
      expect((await heard.next()).value).toMatchObject({ type: "queue.created" });
      await addNamed(port, numbered(9_000));
      await addNamed(port, numbered(9_000));
      await clock.advance(20 * SECOND);
      const { id } = await addOne(port);
      await port.pause(QUEUE, true);
      const seen = await eventsUntil(heard, "queue.paused");
      const gaps = seen.flatMap((event) => (event.type === "gap" ? [event.missed] : []));
      expect(gaps.length).toBeGreaterThan(0);
      const told = seen.filter(({ type }) => type === "task.added").length;
      expect(told + gaps.reduce((sum, missed) => sum + missed, 0)).toBe(18_001);
      expect(seen.at(-2)).toMatchObject({ type: "task.added", taskId: id });
    });

    test("a reader whose registration expired learns that it missed events", async () => {
      const { port, clock } = await start();
      const heard = listen(port);
      await port.declare(QUEUE, {});
      expect((await heard.next()).value).toMatchObject({ type: "queue.created" });
      await clock.advance(2 * MINUTE);
      await addNamed(port, numbered(5));
      // Either its registration was still there, or it gets a gap.
      expect(["gap", "task.added"]).toContain(((await heard.next()).value as DibsEvent).type);
    });
  });
}
