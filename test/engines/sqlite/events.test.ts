// Events are written a commit at a time, and no more of them than readers could take in.

import Database from "better-sqlite3";
import { expect, test } from "vitest";
import type { DibsEvent } from "../../../src/core/event/events.ts";
import { BOUNDS } from "../../../src/engine/bounds.ts";
import type { Op, Verbs } from "../../../src/engine/engine.ts";
import { newTask, now, openStore, QUEUE, tempPath } from "./kit.ts";

function rowsIn(path: string): number {
  const db = new Database(path, { readonly: true });
  try {
    return db.prepare("SELECT count(*) FROM event").pluck().get() as number;
  } finally {
    db.close();
  }
}

/** A store with a listener, whose time the test moves. */
function listening() {
  const path = tempPath();
  const store = openStore(path);
  let reading = now();
  const run = <const Ops extends readonly Op[]>(ops: Ops) => store.execute(ops, reading).outcomes;
  const ask = <V extends "add" | "claim" | "listen">(op: Op<V>): Verbs[V]["out"] =>
    (run([op])[0] as { ok: Verbs[V]["out"] }).ok;
  const { cursor: start } = ask({ verb: "listen", listener: "l", after: null, limit: 1 });
  const add = (count: number) => ask({ verb: "add", tasks: Array.from({ length: count }, () => newTask()) });
  const listen = (after: number, limit = 100_000) => ask({ verb: "listen", listener: "l", after, limit });
  /** The events that are written and missed after event `cursor`, up to the end. */
  const all = (cursor: number) => {
    const seen = { told: 0, missed: 0, cursor, types: [] as string[] };
    for (;;) {
      const page = listen(seen.cursor, 1_000);
      if (page.cursor === seen.cursor) return seen;
      seen.missed += page.missed;
      seen.cursor = page.cursor;
      for (const event of page.events.map((text) => JSON.parse(text) as DibsEvent)) {
        if (event.type === "gap") {
          seen.missed += event.missed;
        } else {
          seen.told++;
          seen.types.push(event.type);
        }
      }
    }
  };
  const advance = (ms: number) => {
    const { wall, elapsed, awake } = reading;
    reading = { ...reading, wall: wall + ms, elapsed: elapsed + ms, awake: awake + ms };
  };
  return { path, start, run, ask, add, listen, all, advance };
}

test("the events of a commit share a row", () => {
  const { path, start, add, listen } = listening();
  add(200);
  expect(rowsIn(path)).toBe(1);
  // One event is about the queue.
  expect(listen(start)).toMatchObject({ cursor: start + 201, missed: 0 });
});

test("a page ends within a row, and the next one continues there", () => {
  const { start, add, listen } = listening();
  const ids = add(10).map((added) => "id" in added && added.id);
  const [first, second] = [listen(start, 4), listen(start + 4, 100)];
  expect([first.events.length, first.missed, second.missed]).toEqual([4, 0, 0]);
  const told = [...first.events, ...second.events].flatMap((text) => {
    const event = JSON.parse(text) as DibsEvent;
    return "taskId" in event ? [event.taskId] : [];
  });
  expect(told).toEqual(ids);
});

test("events above the rate are counted and not written", () => {
  const { start, add, all } = listening();
  const rounds = 3;
  for (let round = 0; round < rounds; round++) add(10_000);
  const { told, missed } = all(start);
  expect(told + missed).toBe(rounds * 10_000 + 1);
  expect(told).toBe(BOUNDS.eventBurst);
});

test("important events above the rate are written, and stored through a flood", () => {
  const { start, run, ask, add, all } = listening();
  const flood = (): void => void add(3 * BOUNDS.events);
  flood();
  run([
    { verb: "pause", queue: QUEUE, paused: true },
    { verb: "pause", queue: QUEUE, paused: false },
  ]);
  flood();
  const { tasks } = ask({ verb: "claim", queues: [QUEUE], max: 1, worker: "w" });
  const error = { name: "Error", message: "it broke", stack: null };
  run(
    tasks.map(({ id, fence }): Op => ({ verb: "settle", id, fence, settlement: { kind: "reject", error } })),
  );
  flood();
  run([{ verb: "prune", limit: 1_000 }]);
  const { types } = all(start);
  for (const type of ["queue.paused", "queue.resumed", "task.dead"]) expect(types).toContain(type);
});

test("important events have a bound too", () => {
  const { start, run, add, all } = listening();
  add(3 * BOUNDS.events);
  const turns = 2 * BOUNDS.eventReserve;
  for (let turn = 0; turn < turns; turn++) run([{ verb: "pause", queue: QUEUE, paused: turn % 2 === 0 }]);
  const { types } = all(start);
  const told = types.filter((type) => type === "queue.paused" || type === "queue.resumed");
  expect(told).toHaveLength(BOUNDS.eventReserve);
});

test("events at the rate are all written", () => {
  const { start, add, all, advance } = listening();
  let seen = { told: 0, missed: 0, cursor: start };
  for (let tenth = 0; tenth < 30; tenth++) {
    add(BOUNDS.eventRate / 10);
    seen = all(seen.cursor);
    expect(seen.missed).toBe(0);
    advance(100);
  }
});

test("events a little above the rate are only counted once the burst is used up", () => {
  const { start, add, all, advance } = listening();
  const perTenth = (BOUNDS.eventRate / 10) * 1.2;
  let seen = { told: 0, missed: 0, cursor: start };
  let later = 0;
  for (let tenth = 0; tenth < 60; tenth++) {
    add(perTenth);
    seen = all(seen.cursor);
    // The burst lasts for 25 tenths of a second.
    if (tenth > 30) later += seen.told;
    advance(100);
  }
  expect(later).toBe(0);
});

test("events far above the rate are only counted after the first, until the rate falls", () => {
  const { start, add, all, advance } = listening();
  let seen = { told: 0, missed: 0, cursor: start };
  let later = 0;
  for (let tenth = 0; tenth < 30; tenth++) {
    add(BOUNDS.eventRate / 2);
    seen = all(seen.cursor);
    if (tenth >= 10) later += seen.told;
    advance(100);
  }
  expect(later).toBe(0);
  advance(1_000);
  add(5_000);
  expect(all(seen.cursor)).toMatchObject({ told: 5_000, missed: 0 });
});

test("events of successes above the rate are counted", () => {
  const { run, ask, add, all, start } = listening();
  add(9_900);
  const { tasks } = ask({ verb: "claim", queues: [QUEUE], max: 300, worker: "w" });
  const done = { kind: "done", result: null } as const;
  run(tasks.map(({ id, fence }): Op => ({ verb: "settle", id, fence, settlement: done })));
  const { told, missed } = all(start);
  // One event of the queue, one of each task, and two more of each handled task.
  expect(told + missed).toBe(1 + 9_900 + 2 * tasks.length);
  expect(told).toBe(BOUNDS.eventBurst);
});
