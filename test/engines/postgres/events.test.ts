// Events on PostgreSQL are written a commit at a time, no more than readers can take in, and cost no fast path.

import { expect, onTestFinished, test, vi } from "vitest";
import type { DibsEvent } from "../../../src/core/event/events.ts";
import { BOUNDS } from "../../../src/engine/bounds.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { Connection } from "../../../src/engines/postgres/connection/connection.ts";
import { connect, ground } from "./kit.ts";
import { claimAll, done, named, run } from "./verbs.ts";

const LISTENER = { verb: "listen", listener: "board" } as const;

/** A store with a listener, and the number of the last event before the test. */
async function listening() {
  const place = await ground();
  const engine = await place.engine();
  await run(engine, { verb: "declare", queue: "work", policy: {} });
  const { cursor: start } = await run(engine, { ...LISTENER, after: null, limit: 1 });
  return { place, engine, start };
}

const add = (engine: Engine, count: number) =>
  run(engine, { verb: "add", tasks: Array.from({ length: count }, (_, n) => named(`${n}`)) });

/** What is written and missed after event `cursor`, up to the end. */
async function readAll(engine: Engine, cursor: number) {
  const seen = { events: [] as DibsEvent[], missed: 0 };
  for (;;) {
    const page = await run(engine, { ...LISTENER, after: cursor, limit: 1_000 });
    if (page.cursor === cursor) return seen;
    seen.events.push(...page.events.map((text) => JSON.parse(text) as DibsEvent));
    seen.missed += page.missed;
    cursor = page.cursor;
  }
}

/** Statements sent to the server while `work` runs. */
async function statementsOf(work: () => Promise<unknown>): Promise<number> {
  const query = vi.spyOn(Connection.prototype, "query");
  const rows = vi.spyOn(Connection.prototype, "rows");
  onTestFinished(() => void vi.restoreAllMocks());
  await work();
  const count = query.mock.calls.length + rows.mock.calls.length;
  vi.restoreAllMocks();
  return count;
}

test("the events of a commit share a row", async () => {
  const { place, engine, start } = await listening();
  const added = await add(engine, 200);
  const connection = await connect(place);
  expect(await connection.all(`SELECT n FROM dibs.event WHERE n > $1`, start)).toEqual([{ n: start + 200 }]);
  const { events, missed } = await readAll(engine, start);
  expect(missed).toBe(0);
  expect(events.map((event) => "taskId" in event && event.taskId)).toEqual(
    added.map((task) => "id" in task && task.id),
  );
});

test("a page ends within a row, and the next one continues there", async () => {
  const { engine, start } = await listening();
  await add(engine, 10);
  const first = await run(engine, { ...LISTENER, after: start, limit: 4 });
  expect(first).toMatchObject({ cursor: start + 4, missed: 0 });
  const second = await run(engine, { ...LISTENER, after: first.cursor, limit: 100 });
  expect(second).toMatchObject({ cursor: start + 10, missed: 0 });
  expect([first.events.length, second.events.length]).toEqual([4, 6]);
});

test("events above the rate are counted and not written", async () => {
  const { engine, start } = await listening();
  // In one transaction, so at one time: nothing is added to the allowance meanwhile.
  const count = 2 * BOUNDS.eventBurst;
  await add(engine, count);
  const { events, missed } = await readAll(engine, start);
  expect([events.length, missed]).toEqual([BOUNDS.eventBurst, count - BOUNDS.eventBurst]);
});

test("successes are settled in bulk while a process listens", async () => {
  const { engine: watched, start } = await listening();
  const unwatched = await (await ground()).engine();
  const settleMany = async (engine: Engine): Promise<number> => {
    await add(engine, 300);
    const tasks = await claimAll(engine, { max: 300 });
    return statementsOf(() => engine.execute(tasks.map(done)));
  };
  const [alone, beside] = [await settleMany(unwatched), await settleMany(watched)];
  // More by the lock under which events are numbered, and their row; not by statements for each task.
  expect(beside).toBeLessThan(alone + 20);
  const { events } = await readAll(watched, start);
  const types = events.map(({ type }) => type);
  expect(types.filter((type) => type === "task.done")).toHaveLength(300);
});

test("events of successes settled in bulk are in order, also with groups and keys", async () => {
  const { engine, start } = await listening();
  await run(engine, {
    verb: "add",
    tasks: [named("a"), { ...named("b"), idempotencyKey: "k" }, named("c", "g"), named("d")],
  });
  const tasks = await claimAll(engine, { worker: "w" });
  expect(tasks).toHaveLength(4);
  await engine.execute(tasks.toReversed().map(done));
  const { events } = await readAll(engine, start);
  const told = events.filter(({ type }) => type === "task.done");
  expect(told).toEqual(
    tasks.toReversed().map(({ id }) => ({
      ...{ type: "task.done", at: expect.any(Number), queue: "work", taskId: id, worker: "w", attempt: 1 },
    })),
  );
});
