// One process reads its store's events once, however many readers there are, and all readers share the pages.

import { describe, expect, onTestFinished, test } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import { RecentEvents } from "../../src/broker/recent-events.ts";
import { DibsError } from "../../src/core/errors/errors.ts";
import type { EventPage } from "../../src/core/event/event-page.ts";
import type { DibsEvent } from "../../src/core/event/events.ts";
import type { Engine, Op, Outcome } from "../../src/engine/engine.ts";
import { systemClock } from "../../src/engine/system-clock.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";

/** A broker whose reads of events are counted. They fail while there is an `error`, and return no events while `isFlood`. */
function setUp(error?: Error) {
  const store = { isFlood: false };
  const engine = openMemory({ clock: systemClock });
  const asked: Op<"listen">[] = [];
  const counted: Engine = new Proxy(engine, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      if (name !== "execute") return (value as () => unknown).bind(target);
      return async (ops: readonly Op[]) => {
        const questions = ops.filter((op): op is Op<"listen"> => op.verb === "listen");
        asked.push(...questions);
        if (error && questions.length > 0) throw error;
        const outcomes: readonly Outcome[] = await engine.execute(ops);
        return store.isFlood ? outcomes.map((outcome, index) => onlyCounted(ops[index]!, outcome)) : outcomes;
      };
    },
  });
  const port = createBroker(counted, { clock: systemClock, pollEvery: 60_000 });
  onTestFinished(() => port.close());
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const open = () => port.events(stop.signal);
  return { port, open, asked, store };
}

/** What a store answers that counts events and writes none. */
function onlyCounted(op: Op, outcome: Outcome): Outcome {
  if (op.verb !== "listen" || op.after === null || !("ok" in outcome)) return outcome;
  const { cursor } = (outcome as Extract<Outcome<"listen">, { ok: unknown }>).ok;
  return { ok: { events: [], cursor, missed: cursor - op.after } };
}

const tasks = (count: number) => Array.from({ length: count }, () => ({ queue: "q", data: "1" }));

describe("events of a store", () => {
  test("events are read once for all readers, which get the same page", async () => {
    const { port, open, asked } = setUp();
    const readers = Array.from({ length: 50 }, open);
    const first = readers.map((reader) => reader.next());
    await port.add(tasks(3));
    const pages = (await Promise.all(first)).map(({ value }) => value as EventPage);
    expect(pages[0]!.events.map(({ type }) => type)).toEqual([
      "queue.created",
      ...["task.added", "task.added", "task.added"],
    ]);
    for (const page of pages) expect(page).toBe(pages[0]);
    // One call per reader finds its start. The other reads are shared by the process.
    expect(asked.filter(({ after }) => after === null)).toHaveLength(50);
    expect(asked.filter(({ after }) => after !== null).length).toBeLessThan(10);
  });

  test("a reader that does not ask for pages causes no reads", async () => {
    const { port, open, asked } = setUp();
    const silent = Array.from({ length: 50 }, open);
    const reader = open();
    for (let round = 0; round < 3; round++) {
      await port.add(tasks(1));
      await reader.next();
    }
    expect(silent).toHaveLength(50);
    expect(asked.filter(({ after }) => after !== null).length).toBeLessThan(10);
  });

  test("events are not read while no reader waits for a page", async () => {
    const { port, open, asked } = setUp();
    const reader = open();
    await port.add(tasks(1));
    await reader.next();
    const before = asked.length;
    // A longer interval than between two reads.
    for (let round = 0; round < 8; round++) {
      await port.add(tasks(1));
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    // One read was in progress.
    expect(asked.length - before).toBeLessThanOrEqual(1);
    let seen = 0;
    while (seen < 8) seen += ((await reader.next()).value as EventPage).events.length;
    expect(seen).toBe(8);
  });

  test("each reader starts where it began to listen", async () => {
    const { port, open } = setUp();
    const early = open();
    await port.add(tasks(2));
    const late = open();
    await port.add(tasks(1));
    const seen = async (reader: AsyncIterator<EventPage>, count: number): Promise<DibsEvent[]> => {
      const events: DibsEvent[] = [];
      while (events.length < count) events.push(...((await reader.next()).value as EventPage).events);
      return events;
    };
    expect(await seen(early, 4)).toHaveLength(4);
    expect(await seen(late, 1)).toHaveLength(1);
  });

  test("events that cannot be read are an error for readers that ask, and no unhandled rejection for others", async () => {
    const { open } = setUp(new DibsError("UNAVAILABLE", "no disk"));
    const [first, second, silent] = [open(), open(), open()];
    await expect(first.next()).rejects.toThrow("no disk");
    await expect(second.next()).rejects.toThrow("no disk");
    // vitest fails on the rejection of a promise that is not awaited.
    expect(silent).toBeDefined();
  });

  test("a reader that only misses events gets a gap once a second, and events at once", async () => {
    const { port, open, store } = setUp();
    const reader = open();
    await port.add(tasks(1));
    await reader.next();
    store.isFlood = true;
    const start = performance.now();
    let added = 0;
    const adding = (async () => {
      for (; added < 40; added++) {
        await port.add(tasks(1));
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      store.isFlood = false;
      await port.pause("q", true);
    })();
    let [gaps, missed] = [0, 0];
    for (let isOver = false; !isOver;) {
      const { events } = (await reader.next()).value as EventPage;
      if (events.every(({ type }) => type === "gap")) gaps++;
      for (const event of events) if (event.type === "gap") missed += event.missed;
      isOver = events.some(({ type }) => type === "queue.paused");
      missed += events.filter(({ type }) => type === "task.added").length;
    }
    await adding;
    expect(missed).toBe(added);
    expect(gaps).toBeLessThanOrEqual(1 + (performance.now() - start) / 1_000);
  });

  test("events are frozen, because readers share them", async () => {
    const { port, open } = setUp();
    const reader = open();
    await port.add(tasks(1));
    const { events } = (await reader.next()).value as EventPage;
    expect(events.every((event) => Object.isFrozen(event))).toBe(true);
  });
});

describe("recent events", () => {
  const numbered = (first: number, last: number): string[] =>
    Array.from({ length: last - first + 1 }, (_, i) =>
      JSON.stringify({ type: "task.added", at: 0, queue: "q", taskId: `${first + i}` }),
    );
  const idsOf = (page: EventPage | undefined) =>
    page?.events.map((event) => (event.type === "gap" ? `gap of ${event.missed}` : taskOf(event)));
  const typesOf = (page: EventPage | undefined) =>
    page?.events.map((event) => (event.type === "gap" ? `gap of ${event.missed}` : event.type));
  const taskOf = (event: DibsEvent): number => Number("taskId" in event && event.taskId);

  test("recent events are returned in order, joined up to a limit", () => {
    const kept = new RecentEvents(0, 100);
    kept.append(numbered(1, 2), 2);
    kept.append(numbered(3, 4), 4);
    kept.append(numbered(5, 6), 6);
    const taken = kept.after(0, 4)!;
    expect([taken.missed, taken.cursor, idsOf(taken.page)]).toEqual([0, 4, [1, 2, 3, 4]]);
    expect(kept.after(0, 4)!.page).toBe(taken.page);
    expect(idsOf(kept.after(4, 4)!.page)).toEqual([5, 6]);
    expect(kept.after(6, 4)).toBeUndefined();
  });

  test("recent events report a gap where events are missing", () => {
    const kept = new RecentEvents(0, 100);
    kept.append(numbered(1, 2), 2);
    kept.append(numbered(6, 7), 7);
    kept.append([], 10);
    expect(idsOf(kept.after(0, 100)!.page)).toEqual([1, 2, "gap of 3", 6, 7]);
    expect(kept.after(2, 100)).toMatchObject({ missed: 3, cursor: 7 });
    expect(kept.after(7, 100)).toEqual({ missed: 3, cursor: 10, page: undefined });
  });

  test("recent events are bounded, and report how many were dropped", () => {
    const kept = new RecentEvents(0, 10);
    for (let n = 1; n <= 100; n += 5) kept.append(numbered(n, n + 4), n + 4);
    const taken = kept.after(0, 1_000)!;
    expect([taken.missed, taken.cursor, idsOf(taken.page)!.length]).toEqual([90, 100, 10]);
  });

  test("recent events can be read from the middle of a page", () => {
    const kept = new RecentEvents(0, 100);
    kept.append(numbered(1, 5), 5);
    expect(idsOf(kept.after(3, 100)!.page)).toEqual([4, 5]);
  });

  test("recent events include important ones for longer than others", () => {
    const kept = new RecentEvents(0, 10);
    const paused = JSON.stringify({ type: "queue.paused", at: 0, queue: "q" });
    const dead = JSON.stringify({ type: "task.dead", at: 0, queue: "q", taskId: "8" });
    kept.append([...numbered(1, 3), paused, ...numbered(5, 7), dead, ...numbered(9, 10)], 10);
    for (let n = 11; n <= 100; n += 5) kept.append(numbered(n, n + 4), n + 4);
    const taken = kept.after(0, 1_000)!;
    expect([taken.missed, taken.cursor]).toEqual([3, 100]);
    const added = Array.from({ length: 10 }, () => "task.added");
    expect(typesOf(taken.page)).toEqual(["queue.paused", "gap of 3", "task.dead", "gap of 82", ...added]);
    // A reader that has seen one of them, and one that has seen what came after them.
    const second = kept.after(4, 1)!;
    expect([second.missed, second.cursor, typesOf(second.page)]).toEqual([0, 8, ["gap of 3", "task.dead"]]);
    expect(kept.after(50, 1_000)).toMatchObject({ missed: 40, cursor: 100 });
  });

  test("recent events include a bounded number of important ones", () => {
    const kept = new RecentEvents(0, 10);
    for (let n = 1; n <= 5_000; n++) {
      kept.append([JSON.stringify({ type: "queue.paused", at: n, queue: "q" })], n);
    }
    const { missed, page } = kept.after(0, 10_000)!;
    expect(page!.length).toBeLessThan(300);
    expect(missed + page!.length).toBe(5_000);
  });

  test("recent events can be read from within a gap in a page", () => {
    const kept = new RecentEvents(0, 100);
    const gap = JSON.stringify({ type: "gap", at: 0, missed: 10 });
    kept.append([...numbered(1, 2), gap, ...numbered(13, 14)], 14);
    expect(idsOf(kept.after(0, 100)!.page)).toEqual([1, 2, "gap of 10", 13, 14]);
    const taken = kept.after(8, 100)!;
    expect([taken.missed, taken.cursor, idsOf(taken.page)]).toEqual([4, 14, [13, 14]]);
  });
});
