import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { ClaimedTask } from "../../../src/core/task/task.ts";
import { BOUNDS } from "../../../src/engine/bounds.ts";
import type { ClaimRequest } from "../../../src/engine/claim-request.ts";
import type { Engine, Op, VerbName, Verbs } from "../../../src/engine/engine.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { changeTimes, ground, type Ground, untilOneWaits } from "./kit.ts";

/**
 * Each statement of a writing batch takes a new snapshot. These tests let another transaction change the store between
 * two statements.
 */

async function run<V extends VerbName>(engine: Engine, op: Op<V>): Promise<Verbs[V]["out"]> {
  const [outcome] = await engine.execute([op]);
  expect(outcome).toHaveProperty("ok");
  return (outcome as { ok: Verbs[V]["out"] }).ok;
}

async function claimAll(engine: Engine, options: Partial<ClaimRequest> = {}): Promise<ClaimedTask[]> {
  const request = { queues: ["work"], max: 10, worker: "w", lease: 60_000, ...options };
  return (await run(engine, { verb: "claim", ...request })).tasks;
}

/** Two processes that know a queue, and another client of the database. */
async function setUp() {
  const place = await ground();
  const [here, there, client] = [await place.engine(), await place.engine(), await place.client()];
  for (const engine of [here, there]) await run(engine, { verb: "declare", queue: "work", policy: {} });
  return { place, schema: place.schema, here, there, client };
}

/** The number of a lock. */
const PAUSE = 4_712;

/** Makes statements that read this table and have these words wait after they have taken their snapshot. */
async function pauseAt({ schema, client }: Ground, table: string, words: string) {
  const locking = await client();
  await locking.query(`
    ALTER TABLE ${schema}.${table} RENAME TO real_${table};
    CREATE FUNCTION ${schema}.pause() RETURNS SETOF ${schema}.real_${table} LANGUAGE plpgsql AS $$
    BEGIN
      IF current_query() LIKE '%${words}%' THEN PERFORM pg_advisory_xact_lock_shared(${PAUSE}); END IF;
    END $$;
    CREATE VIEW ${schema}.${table} AS
      SELECT * FROM ${schema}.real_${table} UNION ALL SELECT * FROM ${schema}.pause()`);
  await locking.query(`SELECT pg_advisory_lock(${PAUSE})`);
  return {
    reached: async () => {
      // The server shows only the beginning of a long statement, so find it by the lock that it waits for.
      const sql = `SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = ${PAUSE} AND NOT granted`;
      while ((await locking.query(sql)).rowCount === 0) await sleep(5);
    },
    continueRun: async () => void (await locking.query(`SELECT pg_advisory_unlock(${PAUSE})`)),
  };
}

/** A batch that has begun, and executes `ops` when the client's transaction has ended. */
async function begun({ schema, here, client }: Awaited<ReturnType<typeof setUp>>, ops: Op[]) {
  await run(here, { verb: "add", tasks: [{ queue: "held", data: "0" }] });
  const [{ id, fence }] = (await claimAll(here, { queues: ["held"] })) as [ClaimedTask];
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM ${schema}.claim FOR UPDATE`);
  const running = here.execute([{ verb: "progress", id, fence, value: 0.5, note: null }, ...ops]);
  await untilOneWaits(client, schema);
  return { outcomes: async () => (await running).slice(1) };
}

test("a sweep processes due tasks of queues that are newer than its batch", async () => {
  const set = await setUp();
  const { schema, here, there, client } = set;
  const { outcomes } = await begun(set, [{ verb: "housekeep" }]);
  const tasks = [
    { queue: "due", data: "1", delay: 60_000 },
    { queue: "due", data: "2", delay: 60_000, groupKey: "g" },
    { queue: "late", data: "3", ttl: 60_000 },
    { queue: "lapsed", data: "4" },
  ];
  await run(there, { verb: "add", tasks });
  await claimAll(there, { queues: ["lapsed"] });
  for (const [table, at] of [
    ["scheduled", "due"],
    ["ttl", "expires_at"],
    ["claim", "deadline"],
  ] as const)
    await client.query(`UPDATE ${schema}.${table} SET ${at} = 1`);
  await client.query("COMMIT");
  expect(await outcomes()).toMatchObject([{ ok: { next: expect.any(Number) as number } }]);
  const claimed = await claimAll(here, { queues: ["due", "late", "lapsed"] });
  expect(claimed.map(({ data }) => data)).toEqual(["1", "2", "4"]);
});

const PIPELINE = { pipeline: "p", stages: [{ name: "work", joins: false }] };
const REJECTED = { kind: "reject", error: { name: "Error", message: "it broke", stack: null } } as const;
const DONE = { kind: "done", result: null } as const;
/** The table and words of the statement that finds tasks. */
const FIND = { table: "claim", words: "WITH ORDINALITY AS wanted" };

interface Look {
  verb: string;
  op: (id: string) => Op;
  settlement?: typeof REJECTED | typeof DONE;
  /** The first statement of the read. */
  first: { table: string; words: string };
  outcome: unknown;
}

const LOOKS: Look[] = [
  {
    verb: "list",
    op: () => ({ verb: "list", queue: "work", state: "done", limit: 10 }),
    settlement: DONE,
    first: FIND,
    outcome: { ok: { tasks: [], next: null } },
  },
  {
    verb: "get",
    op: (id) => ({ verb: "get", id }),
    settlement: REJECTED,
    first: FIND,
    outcome: { refused: { code: "TASK_NOT_FOUND" } },
  },
  {
    verb: "ends",
    op: (id) => ({ verb: "ends", ids: [id] }),
    settlement: REJECTED,
    first: { table: "dead", words: "dead.fence" },
    outcome: { ok: ["missing"] },
  },
  {
    verb: "ends of runs",
    op: (id) => ({ verb: "ends", of: "runs", ids: [id] }),
    settlement: REJECTED,
    first: { table: "run", words: "SELECT * FROM" },
    outcome: { ok: ["pending"] },
  },
  {
    verb: "run",
    op: (id) => ({ verb: "run", id, limit: 10 }),
    first: { table: "run_part", words: "stage, part, state" },
    outcome: { ok: { parts: [] } },
  },
  {
    verb: "patterns",
    op: () => ({ verb: "patterns", queue: "work", by: "fingerprint", limit: 10 }),
    settlement: REJECTED,
    first: { table: "dead", words: "fingerprint AS pattern" },
    outcome: { ok: [] },
  },
];

test.each(LOOKS)("$verb leaves out what other transactions delete meanwhile", async (look) => {
  const { place, here, client } = await setUp();
  const [added] = await run(here, { verb: "add", tasks: [{ queue: "work", data: "1", run: PIPELINE }] });
  const [{ id, fence }] = (await claimAll(here)) as [ClaimedTask];
  if (look.settlement) await run(here, { verb: "settle", id, fence, settlement: look.settlement });
  const pause = await pauseAt(place, look.first.table, look.first.words);
  const looking = here.execute([look.op(added!.id), { verb: "prune", limit: 1 }]);
  await pause.reached();
  // Plays another process that removes the task.
  for (const table of ["task", "claim", "ended", "dead", "attempt"]) {
    const name = table === look.first.table ? `real_${table}` : table;
    await client.query(`DELETE FROM ${place.schema}.${name}`);
  }
  await pause.continueRun();
  expect((await looking)[0]).toMatchObject(look.outcome as object);
});

/** A task that waits for a signal, for ever. */
async function parked(engine: Engine): Promise<string> {
  await run(engine, { verb: "add", tasks: [{ queue: "work", data: "1" }] });
  const [{ id, fence }] = (await claimAll(engine)) as [ClaimedTask];
  const settlement = { kind: "park", signal: "first", timeout: null } as const;
  await run(engine, { verb: "settle", id, fence, settlement });
  return id;
}

test("a signal wakes a task that is parked while the signal is sent", async () => {
  const { schema, here, client } = await setUp();
  const id = await parked(here);
  await client.query("BEGIN");
  await client.query(`LOCK TABLE ${schema}.step IN ACCESS EXCLUSIVE MODE`);
  const running = run(here, { verb: "signal", id, name: "second", value: null });
  await untilOneWaits(client, schema);
  // Plays other processes that send the first signal, claim the task, and park it again.
  await client.query(`
    WITH old AS (DELETE FROM ${schema}.scheduled RETURNING queue, pos, task, due, failures, blocks_group)
    INSERT INTO ${schema}.scheduled SELECT pos, task, due, queue, failures, blocks_group, 'second' FROM old`);
  await client.query("COMMIT");
  expect(await running).toEqual({ kept: true, state: "ready" });
  expect(await claimAll(here)).toHaveLength(1);
});

test.each<{ op: Op; expired: number }>([
  { op: { verb: "purge", queue: "work", limit: 10 }, expired: 0 },
  { op: { verb: "housekeep" }, expired: 1 },
])("$op.verb counts a task in its current state if that changes meanwhile", async ({ op, expired }) => {
  const { place, here, client } = await setUp();
  const { schema } = place;
  await parked(here);
  await client.query(`UPDATE ${schema}.task SET expires_at = 1`);
  await changeTimes(client, schema, `INSERT INTO dibs.ttl (expires_at, task) SELECT 1, seq FROM dibs.task`);
  const pause = await pauseAt(place, "verifying", FIND.words);
  const running = run(here, op);
  await pause.reached();
  // Plays other processes that send the signal, claim the task, and fail it.
  await client.query(`UPDATE ${schema}.scheduled SET signal = NULL, failures = 1`);
  await client.query(`UPDATE ${schema}.delta SET scheduled = parked, parked = 0`);
  await pause.continueRun();
  await running;
  const { depth } = await run(here, { verb: "stats", queue: "work" });
  expect(depth).toMatchObject({ parked: 0, scheduled: 0, expired });
});

/** Two processes in which a deadlock would last longer than a test may; and two runs, of each of which two tasks are claimed. */
async function withRuns() {
  const place = await ground();
  const url = `${place.url}${place.url.includes("?") ? "&" : "?"}options=-c%20deadlock_timeout%3D300s`;
  const open = async (): Promise<Engine> => {
    const engine = await openPostgres({ url, schema: place.schema });
    onTestFinished(() => engine.close());
    return engine;
  };
  const [here, there, client] = [await open(), await open(), await place.client()];
  const stages = ["split", "work"].map((name) => ({ name, joins: false }));
  const tasks = ["1", "2"].map((data) => ({ queue: "work", data, run: { pipeline: "p", stages } }));
  await run(here, { verb: "add", tasks });
  const settlement = { kind: "done", result: "[1,2]", each: true } as const;
  for (const { id, fence } of await claimAll(here))
    await run(here, { verb: "settle", id, fence, settlement });
  const parts = [
    ...(await claimAll(here, { queues: ["p/work"], max: 2 })),
    ...(await claimAll(there, { queues: ["p/work"], max: 2 })),
  ];
  const runs = [...Map.groupBy(parts, (task) => task.run!.id)];
  return { schema: place.schema, here, there, client, runs };
}

function done({ id, fence }: ClaimedTask): Op<"settle"> {
  return { verb: "settle", id, fence, settlement: DONE };
}

async function lockClaim(client: Client, schema: string, task: ClaimedTask): Promise<void> {
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM ${schema}.claim WHERE fence = $1 FOR UPDATE`, [task.fence]);
}

async function untilSoManyWait(client: Client, schema: string, count: number): Promise<void> {
  const sql = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1`;
  while (((await client.query(sql, [`%${schema}%`])).rowCount ?? 0) < count) {
    await client.query("SELECT pg_stat_clear_snapshot()");
    await sleep(5);
  }
}

test("two batches that settle tasks of the same runs in opposite order do not deadlock", async () => {
  const { schema, here, there, client, runs } = await withRuns();
  const [[, [a, b]], [, [c, d]]] = runs as [
    [string, [ClaimedTask, ClaimedTask]],
    [string, [ClaimedTask, ClaimedTask]],
  ];
  // Each batch reaches its second task before the other one continues.
  await lockClaim(client, schema, c);
  await client.query(`SELECT 1 FROM ${schema}.claim WHERE fence = $1 FOR UPDATE`, [b.fence]);
  const settling = Promise.all([here.execute([done(a), done(c)]), there.execute([done(d), done(b)])]);
  await untilSoManyWait(client, schema, 2);
  await client.query("COMMIT");
  expect((await settling).flat()).toEqual(Array.from({ length: 4 }, () => ({ ok: { state: "done" } })));
});

test("a batch that settles a task and one that cancels its run do not deadlock", async () => {
  const { schema, here, there, client, runs } = await withRuns();
  const [[id, [a, b]]] = runs as [[string, [ClaimedTask, ClaimedTask]]];
  // One batch reaches the run, or the run's first task, before the other one.
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM ${schema}.run FOR UPDATE`);
  const settling = run(here, done(b));
  await untilSoManyWait(client, schema, 1);
  const cancelling = run(there, { verb: "cancelRun", id });
  await untilSoManyWait(client, schema, 2);
  await client.query("COMMIT");
  expect(await settling).toEqual({ state: "done" });
  expect(await cancelling).toEqual({ state: "cancelled" });
  expect(await run(here, done(a))).toEqual({ state: "cancelled" });
});

/** A queue whose hold has ended, with a claimed task. */
async function onceHeld() {
  const set = await setUp();
  const { schema, here, client } = set;
  await run(here, { verb: "add", tasks: [{ queue: "work", data: "1" }] });
  await held(here, (await claimAll(here))[0]!, 60_000);
  await client.query(`UPDATE ${schema}.gate SET held_until = 1, wake_at = NULL`);
  const [task] = await claimAll(here);
  return { ...set, task: task! };
}

async function held(engine: Engine, { id, fence }: ClaimedTask, delay: number): Promise<void> {
  await run(engine, {
    verb: "settle",
    id,
    fence,
    settlement: { kind: "hold", error: REJECTED.error, delay },
  });
}

/** Failed tasks in the retry-elsewhere line: there is another worker. */
async function retried(engine: Engine, names: string[], groupKey?: string): Promise<void> {
  for (const id of ["w", "other"]) {
    const worker = { id, name: id, queues: ["work"], concurrency: 1, host: "host", pid: 1 };
    await run(engine, { verb: "join", worker, lease: 60_000 });
  }
  await run(engine, {
    verb: "add",
    tasks: names.map((data) => ({ queue: "work", data, ...(groupKey && { groupKey }) })),
  });
  for (const { id, fence } of await claimAll(engine)) {
    const settlement = { kind: "fail", error: REJECTED.error, delay: 0 } as const;
    await run(engine, { verb: "settle", id, fence, settlement });
  }
}

test("no task starts if its queue gets a hold after a claim has read the gate", async () => {
  const { place, here, there, task } = await onceHeld();
  const pause = await pauseAt(place, "ready_sticky", "reviewed IS NULL");
  const claiming = claimAll(there);
  await pause.reached();
  await held(here, task, 60_000);
  await pause.continueRun();
  expect(await claiming).toEqual([]);
});

test("no task of the retry-elsewhere line starts if its queue gets a hold after a claim has read the gate", async () => {
  const { place, here, there, task } = await onceHeld();
  await retried(here, ["2"]);
  const pause = await pauseAt(place, "ready_sticky", "reviewed IS NULL");
  const claiming = claimAll(there, { worker: "other" });
  await pause.reached();
  await held(here, task, 60_000);
  await pause.continueRun();
  expect(await claiming).toEqual([]);
});

test("tasks that a claim locked and left in the line are hinted, even if the queue once had a hold", async () => {
  const { here, task } = await onceHeld();
  await run(here, { verb: "settle", id: task.id, fence: task.fence, settlement: DONE });
  await retried(here, ["1", "2", "3"]);
  const hints: unknown[] = [];
  here.onHint((hint) => hints.push(hint.ready));
  expect(await claimAll(here, { worker: "other", max: 1 })).toHaveLength(1);
  expect(hints).toContainEqual({ work: 2 });
});

test("other processes are notified of a cancelled run whose tasks are all claimed", async () => {
  const { here, there } = await setUp();
  const [added] = await run(here, { verb: "add", tasks: [{ queue: "work", data: "1", run: PIPELINE }] });
  await claimAll(here);
  const told = new Promise((resolve) => there.onHint((hint) => hint.ended && resolve(true)));
  await run(here, { verb: "cancelRun", id: added!.id });
  expect(await told).toBe(true);
});

test("a task that leaves the retry-elsewhere line while its queue gets a limit waits in its group", async () => {
  const { schema, here, client } = await setUp();
  await run(here, { verb: "declare", queue: "work", policy: { groups: { concurrency: 2 } } });
  await retried(here, ["1", "2"], "g");
  await client.query("BEGIN");
  // Plays another process that moves them from the retry-elsewhere line.
  await client.query(`
    WITH opened AS (DELETE FROM ${schema}.ready_elsewhere RETURNING queue, rank, pos, task, failures, special, group_key)
    INSERT INTO ${schema}.ready (queue, rank, pos, task, failures, special, group_key) SELECT * FROM opened`);
  const declaring = run(here, { verb: "declare", queue: "work", policy: { groups: { concurrency: 1 } } });
  await untilOneWaits(client, schema);
  await client.query("COMMIT");
  await declaring;
  expect(await claimAll(here, { worker: "other" })).toHaveLength(1);
});

test("due rows that another transaction holds are tried again after a pause", async () => {
  const { schema, here, there, client } = await setUp();
  await run(here, { verb: "add", tasks: ["1", "2"].map((data) => ({ queue: "work", data })) });
  const [first, second] = await claimAll(here);
  await changeTimes(client, schema, `UPDATE dibs.claim SET deadline = 1 WHERE fence = $1`, [first!.fence]);
  await client.query("BEGIN");
  await here.executeInTransaction!(client, done(first!));
  expect((await run(there, { verb: "housekeep" })).next).toBeGreaterThan(0);
  await client.query("COMMIT");
  expect(await run(there, { verb: "get", id: first!.id })).toMatchObject({ state: "done" });
  expect(await run(there, done(second!))).toEqual({ state: "done" });
});

test("a sweep that reached its bound is continued at once", async () => {
  const { schema, here, client } = await setUp();
  const tasks = Array.from({ length: BOUNDS.sweep + 1 }, () => ({ queue: "work", data: "1", delay: 60_000 }));
  await run(here, { verb: "add", tasks });
  await changeTimes(client, schema, `UPDATE dibs.scheduled SET due = 1`);
  expect(await run(here, { verb: "housekeep" })).toMatchObject({ next: 0 });
  expect(await run(here, { verb: "housekeep" })).toMatchObject({ next: null });
});
