import { expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { BOUNDS } from "../../../src/engine/bounds.ts";
import { gateLock } from "../../../src/engines/postgres/connection/locks.ts";
import { changeTimes, ground } from "./kit.ts";
import { claimAll, joinAs, named, run } from "./verbs.ts";

/**
 * In a queue whose gate is locked, as many tasks are due as one sweep processes. The sweep must still process what is
 * due in other queues.
 */

const BUSY = "busy";
const QUEUES = [BUSY, "work"];

type More = { delay?: number; ttl?: number };

/** Returns the last task, whose queue is not locked. */
async function addAll(engine: Engine, more: More = {}, ofGroup = false): Promise<string> {
  const tasks = Array.from({ length: BOUNDS.sweep }, (_, n) => ({
    ...{ queue: BUSY, data: "0", groupKey: `g${n}` },
    ...more,
  }));
  await run(engine, { verb: "add", tasks });
  const last = [{ ...named("1", ofGroup ? "g" : undefined), ...more }];
  return (await run(engine, { verb: "add", tasks: last }))[0]!.id;
}

async function claimEach(engine: Engine, session?: number): Promise<void> {
  const request = { queues: QUEUES, max: BOUNDS.sweep + 1, ...(session !== undefined && { session }) };
  expect(await claimAll(engine, request)).toHaveLength(BOUNDS.sweep + 1);
}

/** How to create the tasks, and the statement that makes them due: the free task last. */
const KINDS: [what: string, bring: (engine: Engine) => Promise<string>, due: string][] = [
  [
    "tasks become due",
    (engine) => addAll(engine, { delay: 60_000 }),
    `UPDATE dibs.scheduled SET due = CASE WHEN queue = $1 THEN 1 ELSE 2 END`,
  ],
  [
    "claims by hand lapse",
    async (engine) => {
      const id = await addAll(engine);
      await claimEach(engine);
      return id;
    },
    `UPDATE dibs.claim SET deadline = CASE WHEN queue = $1 THEN 1 ELSE 2 END`,
  ],
  [
    "a session lapses",
    async (engine) => {
      const id = await addAll(engine);
      await claimEach(engine, await joinAs(engine, "gone"));
      return id;
    },
    `UPDATE dibs.session SET heartbeat_at = $1 * 0`,
  ],
  [
    "groups may go on",
    async (engine) => {
      const rateLimit = [{ max: 1, per: 3_600_000, unit: null, pace: false }];
      await run(engine, {
        verb: "declare",
        queue: "work",
        policy: { groups: { concurrency: 2, rateLimit } },
      });
      const id = await addAll(engine, {}, true);
      await run(engine, { verb: "add", tasks: [named("2", "g")] });
      expect(await claimAll(engine)).toHaveLength(1);
      return id;
    },
    `UPDATE dibs.lane SET wake_at = CASE WHEN queue = $1 THEN 1 ELSE 2 END, meter = NULL`,
  ],
];

async function withBusyGate(bring: (engine: Engine) => Promise<string>, due: string) {
  const { engine, client, schema } = await ground();
  const [here, locking] = [await engine(), await client()];
  await run(here, { verb: "declare", queue: BUSY, policy: { groups: { concurrency: 2 } } });
  const id = await bring(here);
  const { rows } = await locking.query(`SELECT id FROM ${schema}.queue WHERE name = $1`, [BUSY]);
  const queue = (rows as [{ id: number }])[0].id;
  await changeTimes(locking, schema, due, [queue]);
  await locking.query(`SELECT pg_advisory_lock(${gateLock(schema, queue)})`);
  return { here, id, free: () => locking.query(`SELECT pg_advisory_unlock_all()`) };
}

test.each(KINDS)("work of other queues continues while a gate is in use, where %s", async (_, bring, due) => {
  const { here } = await withBusyGate(bring, due);
  // The next sweep comes after a pause, because this one could process nothing more.
  expect((await run(here, { verb: "housekeep" })).next).toBeGreaterThan(0);
  expect(await claimAll(here)).toHaveLength(1);
});

test("tasks past their time-to-live expire while the gate of another queue is in use", async () => {
  const due = `
    WITH early AS (
      UPDATE dibs.task SET expires_at = CASE WHEN queue = $1 THEN 1 ELSE 2 END RETURNING seq, expires_at)
    UPDATE dibs.ttl SET expires_at = early.expires_at FROM early WHERE ttl.task = early.seq`;
  const { here, id, free } = await withBusyGate((engine) => addAll(engine, { ttl: 60_000 }), due);
  expect((await run(here, { verb: "housekeep" })).next).toBeGreaterThan(0);
  expect(await run(here, { verb: "get", id })).toMatchObject({ state: "expired" });
  await free();
  await run(here, { verb: "housekeep" });
  const { depth } = await run(here, { verb: "stats", queue: BUSY });
  expect(depth).toMatchObject({ expired: BOUNDS.sweep, ready: 0 });
});
