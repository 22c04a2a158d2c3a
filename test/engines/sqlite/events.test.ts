// Events are written a commit at a time, and no more of them than readers could take in.

import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { BOUNDS, type Op, type Verbs } from "../../../src/engine/engine.ts";
import { newTask, now, openStore, tempPath } from "./kit.ts";

function rowsIn(path: string): number {
  const db = new Database(path, { readonly: true });
  try {
    return db.prepare("SELECT count(*) FROM event").pluck().get() as number;
  } finally {
    db.close();
  }
}

/** A store that somebody listens to, in a moment that does not pass. */
function listening() {
  const path = tempPath();
  const store = openStore(path);
  const reading = now();
  const ask = <V extends "add" | "listen">(op: Op<V>): Verbs[V]["out"] =>
    (store.run([op], reading).outcomes[0] as { ok: Verbs[V]["out"] }).ok;
  const { cursor: start } = ask({ verb: "listen", listener: "l", after: null, limit: 1 });
  const add = (count: number) => ask({ verb: "add", tasks: Array.from({ length: count }, () => newTask()) });
  const listen = (after: number, limit = 100_000) => ask({ verb: "listen", listener: "l", after, limit });
  return { path, start, add, listen };
}

test("the events of a commit share a row", () => {
  const { path, start, add, listen } = listening();
  add(200);
  expect(rowsIn(path)).toBe(1);
  // One tells of the queue.
  expect(listen(start)).toMatchObject({ cursor: start + 201, missed: 0 });
});

test("a page ends within a row, and the next one goes on there", () => {
  const { start, add, listen } = listening();
  const ids = add(10).map((added) => "id" in added && added.id);
  const [first, second] = [listen(start, 4), listen(start + 4, 100)];
  expect([first.events.length, first.missed, second.missed]).toEqual([4, 0, 0]);
  const told = [...first.events, ...second.events].flatMap((event) =>
    "taskId" in event ? [event.taskId] : [],
  );
  expect(told).toEqual(ids);
});

test("events above the rate are counted and not written", () => {
  const { start, add, listen } = listening();
  const rounds = 3;
  for (let round = 0; round < rounds; round++) add(10_000);
  let [told, missed, cursor] = [0, 0, start];
  for (;;) {
    const page = listen(cursor, 1_000);
    if (page.cursor === cursor) break;
    told += page.events.length;
    missed += page.missed;
    cursor = page.cursor;
  }
  expect(told + missed).toBe(rounds * 10_000 + 1);
  expect(told).toBe(BOUNDS.events);
});
