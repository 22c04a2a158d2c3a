import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { MIGRATIONS } from "../../../src/engines/sqlite/schema/migrations.ts";
import { call, now, openEngine, QUEUE, tempPath } from "./kit.ts";

/** A store as the dibs of that many steps left it, with a task that is ready. */
function formerStore(path: string, steps: number): void {
  const db = new Database(path);
  db.pragma("journal_mode = WAL");
  // "dibs", as the header of its files says.
  db.pragma("application_id = 0x64696273");
  for (const step of MIGRATIONS.slice(0, steps)) db.exec(step);
  db.pragma(`user_version = ${steps}`);
  const { boot, wall, elapsed, awake } = now();
  db.prepare(
    `INSERT INTO store (one, salt, now, awake, boot, elapsed_at, awake_at, seq, fence, session, event, revision, listeners)
     VALUES (1, 7, ?, 0, ?, ?, ?, 1, 0, 0, 0, 1, 0)`,
  ).run(Math.floor(wall), boot, Math.floor(elapsed), Math.floor(awake));
  db.exec(`
    INSERT INTO queue (id, name, named, paused, created_at) VALUES (1, '${QUEUE}', '{"maxAttempts":3}', 0, 1);
    INSERT INTO depth (queue, ready) VALUES (1, 1);
    INSERT INTO task (seq, queue, created_at, priority, data) VALUES (1, 1, 1, 0, '"kept"');
    INSERT INTO ready (queue, rank, pos, task, failures, special) VALUES (1, 0, 1, 1, 0, 0)`);
  db.close();
}

test.each(MIGRATIONS.slice(1).map((_, index) => index + 1))(
  "a store of schema %i is brought up to date, with all it holds",
  async (steps) => {
    const path = tempPath();
    formerStore(path, steps);
    const engine = await openEngine({ path });
    const { tasks } = await call(engine, { verb: "claim", queues: [QUEUE], max: 9, worker: "w" });
    expect(tasks).toMatchObject([{ data: '"kept"', maxAttempts: 3, attempt: 1 }]);
    const { id, fence } = tasks[0]!;
    await call(engine, { verb: "settle", id, fence, settlement: { kind: "done", result: null } });
    // What is new works on it.
    await call(engine, { verb: "subscribe", pattern: "a.*", group: "g", queue: QUEUE });
    const [copy] = await call(engine, { verb: "publish", message: { topic: "a.b", data: "1" } });
    expect(copy).toMatchObject({ queue: QUEUE, state: "ready" });
    await call(engine, { verb: "put", kind: "k", name: "n", value: "1", expect: null, dueAt: 1 });
    expect((await call(engine, { verb: "housekeep" })).due).toEqual([{ kind: "k", name: "n", value: "1" }]);
    expect((await call(engine, { verb: "stats", queue: QUEUE })).depth).toMatchObject({ ready: 1, done: 1 });
  },
);
