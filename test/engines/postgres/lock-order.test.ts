import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { ALL_CHILDREN } from "../../../src/core/handler/children-signal.ts";
import type { Conflict } from "../../../src/core/commit.ts";
import type { AddedTask, ClaimedTask } from "../../../src/core/task/task.ts";
import type { Engine, Op, Verbs } from "../../../src/engine/engine.ts";
import type { Settlement } from "../../../src/engine/settlement.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { catalogueLock } from "../../../src/engines/postgres/connection/locks.ts";
import { type Ground, ground } from "./kit.ts";
import type { ProcessReport } from "./lock-order/process.ts";
import { PostgresServer, QUICK } from "../../postgres/server.ts";
import { isLong } from "../../run/long.ts";

const PROGRAM = join(import.meta.dirname, "lock-order/process.ts");
const PROCESSES = 4;
const STEPS = isLong ? 250 : 80;
const SEEDS = Array.from({ length: isLong ? 20 : 1 }, (_, index) => index + 1);
/** A deadlock is found, and counted, after a moment: nothing here waits for a lock for long. */
const SETTINGS = { ...QUICK, deadlock_timeout: "20ms" };

async function startServer(): Promise<{ server: PostgresServer; admin: Client }> {
  const server = await PostgresServer.start({ settings: SETTINGS });
  onTestFinished(() => server.remove());
  const admin = new Client({ connectionString: server.url });
  await admin.connect();
  onTestFinished(() => admin.end());
  return { server, admin };
}

/** Counts of all databases of the server. `rollbacks`: batches that started again, mostly because of a lock. */
async function countOf(admin: Client): Promise<{ deadlocks: number; rollbacks: number }> {
  const sql = `SELECT sum(deadlocks)::int AS deadlocks, sum(xact_rollback)::int AS rollbacks FROM pg_stat_database`;
  return (await admin.query(sql)).rows[0] as { deadlocks: number; rollbacks: number };
}

test.each(SEEDS)(
  "seed %i: cancel, verdict, ack, redrive, expiry and drop of runs and families from several processes cause no deadlock",
  { timeout: 300_000 },
  async (seed) => {
    const { server, admin } = await startServer();
    const all = await Promise.all(
      Array.from({ length: PROCESSES }, (_, index) => runProcess(server.url, seed * 100 + index)),
    );
    const { deadlocks, rollbacks } = await countOf(admin);
    const sum = (what: "runs" | "refused"): number => all.reduce((before, each) => before + each[what], 0);
    expect(deadlocksIn(server.log)).toBe("");
    expect(deadlocks).toBe(0);
    expect(all.flatMap(({ warnings }) => warnings)).toEqual([]);
    expect(await strayRelatives(admin)).toEqual([]);
    // The processes did meet.
    expect(sum("runs")).toBeGreaterThan(20);
    expect(rollbacks).toBeGreaterThan(10);
    expect(sum("refused")).toBeLessThan((PROCESSES * STEPS) / 50);
  },
);

const ENDED = `(EXISTS (SELECT 1 FROM dibs.ended WHERE ended.task = child.task) OR EXISTS (SELECT 1 FROM dibs.dead WHERE dead.task = child.task))`;
const EXISTS = `EXISTS (SELECT 1 FROM dibs.task WHERE seq = child.task)`;
/** Relatives that contradict each other. */
const STRAYS = `
  SELECT 'waits for nothing' AS what, scheduled.task FROM dibs.scheduled
  WHERE signal = 'children:1-1000' AND NOT EXISTS (SELECT 1 FROM dibs.child WHERE parent = scheduled.task AND state IS NULL)
  UNION ALL SELECT 'has ended, and counts as pending', task FROM dibs.child WHERE state IS NULL AND (NOT ${EXISTS} OR ${ENDED})
  UNION ALL SELECT 'is pending, and counts as ended', task FROM dibs.child WHERE state IS NOT NULL AND ${EXISTS} AND NOT ${ENDED}
  UNION ALL SELECT 'child without a parent', task FROM dibs.child WHERE NOT EXISTS (SELECT 1 FROM dibs.task WHERE seq = child.parent)
  UNION ALL SELECT 'child without a family', task FROM dibs.child WHERE NOT EXISTS (SELECT 1 FROM dibs.family WHERE family.parent = child.parent)
  UNION ALL SELECT 'family without a parent', parent FROM dibs.family WHERE NOT EXISTS (SELECT 1 FROM dibs.task WHERE seq = family.parent)`;

async function strayRelatives(admin: Client): Promise<unknown[]> {
  return (await admin.query(STRAYS)).rows as unknown[];
}

const STAGES = [
  { name: "split", joins: false },
  { name: "check", joins: false },
  { name: "join", joins: true },
];

test("cancels of runs with 40 parts cause no deadlock while verdicts come in", async () => {
  const { server, admin } = await startServer();
  const engines = await Promise.all(Array.from({ length: 4 }, () => openPostgres({ url: server.url })));
  onTestFinished(async () => void (await Promise.all(engines.map((engine) => engine.close()))));
  const [first] = engines as [Engine, ...Engine[]];
  const claim = async (engine: Engine, queue: string, max: number): Promise<ClaimedTask[]> =>
    (await run(engine, { verb: "claim", queues: [queue], max, worker: "w", lease: 60_000 })).tasks;
  const settle = (engine: Engine, { id, fence }: ClaimedTask, settlement: Settlement) =>
    engine.execute([{ verb: "settle", id, fence, settlement }]);
  await run(first, { verb: "declare", queue: "p/check", policy: { verified: true } });
  const runs = Array.from({ length: 6 }, () => ({
    ...{ queue: "p/split", data: "0", run: { pipeline: "p", stages: STAGES } },
  }));
  const begun = await run(first, { verb: "add", tasks: runs });
  for (const task of await claim(first, "p/split", 6))
    await settle(first, task, { kind: "done", result: `[${"1,".repeat(39)}1]`, each: true });
  for (const task of await claim(first, "p/check", 240))
    await settle(first, task, { kind: "done", result: "1" });
  const judge = async (engine: Engine): Promise<void> => {
    for (;;) {
      const tasks = await claim(engine, "p/check/verify", 5);
      if (tasks.length === 0) return;
      const verdicts = tasks.map(({ id, fence, data }) => {
        const of = JSON.parse(data as string) as { id: string; fence: number };
        return { verb: "settle", id, fence, settlement: { kind: "verdict", of, accepted: true } } as const;
      });
      await engine.execute(verdicts);
    }
  };
  const cancels = begun.map(({ id }, i) => run(engines[i % engines.length]!, { verb: "cancelRun", id }));
  const [states] = await Promise.all([Promise.all(cancels), ...engines.map(judge)]);
  expect(states).toEqual(Array.from({ length: 6 }, () => ({ state: "cancelled" })));
  const { deadlocks } = await countOf(admin);
  expect(deadlocks, `of six cancels\n${deadlocksIn(server.log)}`).toBe(0);
});

test("a parent that parks while its children end in other transactions is woken", async () => {
  const { url, schema } = await ground();
  const engines = await Promise.all(Array.from({ length: 5 }, () => openPostgres({ url, schema })));
  onTestFinished(async () => void (await Promise.all(engines.map((engine) => engine.close()))));
  const [first] = engines as [Engine, ...Engine[]];
  const claim = async (queue: string): Promise<ClaimedTask> =>
    (await run(first, { verb: "claim", queues: [queue], max: 1, worker: "w", lease: 60_000 })).tasks[0]!;
  const names = ["acked", "rejected", "cancelled", "purged"];
  for (let round = 0; round < 30; round++) {
    await run(first, { verb: "add", tasks: [{ queue: "parents", data: "0" }] });
    const { id, fence } = await claim("parents");
    const children = names.map((name) => ({ name, task: { queue: name, data: "0" } }));
    const spawned = await run(first, { verb: "spawn", id, fence, children });
    const [acked, rejected] = [await claim("acked"), await claim("rejected")];
    const ops: Op[] = [
      { verb: "settle", id, fence, settlement: { kind: "park", signal: ALL_CHILDREN, timeout: null } },
      { verb: "settle", id: acked.id, fence: acked.fence, settlement: { kind: "done", result: "1" } },
      {
        ...{ verb: "settle", id: rejected.id, fence: rejected.fence },
        settlement: { kind: "reject", error: { name: "Error", message: "no", stack: null } },
      },
      { verb: "cancel", id: spawned[2]!.id },
      { verb: "purge", queue: "purged", limit: 10 },
    ];
    await Promise.all(ops.map((op, i) => run(engines[(i + round) % engines.length]!, op)));
    const parent = await run(first, { verb: "get", id });
    expect(parent).toMatchObject({ state: "ready", children: { total: 4, pending: 0 } });
    const again = await claim("parents");
    const settlement = { kind: "done", result: null } as const;
    await run(first, { verb: "settle", id: again.id, fence: again.fence, settlement });
  }
});

test("a batch that waits for a key of another transaction holds none itself", async () => {
  const { schema, engine, client } = await ground();
  const store = await engine();
  const task = (idempotencyKey: string) => ({ queue: "q", data: "0", idempotencyKey });
  await store.execute([{ verb: "add", tasks: [task("old")] }]);
  const insert = `INSERT INTO ${schema}.idempotency (queue, key, task, created_at) SELECT queue, $1, 0, 0 FROM ${schema}.task`;
  const other = await client();
  await other.query(`BEGIN`);
  await other.query(insert, ["a"]);
  // Put a verb between the adds, so that they are not combined.
  const adding = store.execute([
    { verb: "add", tasks: [task("b")] },
    { verb: "housekeep" },
    { verb: "add", tasks: [task("a")] },
  ]);
  await untilBlockedBy(await client(), other);
  await other.query(`SET LOCAL lock_timeout = 1000`);
  await other.query(insert, ["b"]);
  await other.query(`ROLLBACK`);
  const states = (await adding).map((outcome) => ("ok" in outcome ? outcome.ok : outcome.refused));
  expect(states).toMatchObject([[{ existing: false }], {}, [{ existing: false }]]);
});

test("a batch that waits for a task of another transaction holds no key", async () => {
  const { schema, engine, client } = await ground();
  const store = await engine();
  const { id } = (await run(store, { verb: "add", tasks: [{ queue: "q", data: "0" }] }))[0]!;
  const other = await client();
  await other.query(`BEGIN; SELECT 1 FROM ${schema}.ready FOR UPDATE`);
  const cancelling = store.execute([
    { verb: "add", tasks: [{ queue: "q", data: "0", idempotencyKey: "a" }] },
    { verb: "cancel", id },
  ]);
  await untilBlockedBy(await client(), other);
  await other.query(`SET LOCAL lock_timeout = 1000`);
  await other.query(
    `INSERT INTO ${schema}.idempotency (queue, key, task, created_at) SELECT queue, 'a', 0, 0 FROM ${schema}.task`,
  );
  await other.query(`ROLLBACK`);
  expect(await cancelling).toMatchObject([{ ok: [{ existing: false }] }, { ok: { state: "cancelled" } }]);
});

/** An engine whose conflicts and warnings the test reads. */
async function watched({ url, schema }: Pick<Ground, "url" | "schema">) {
  const conflicts: Conflict[] = [];
  const warnings: string[] = [];
  const engine = await openPostgres({
    ...{ url, schema, onConflict: (conflict) => conflicts.push(conflict) },
    logger: { warn: (text) => warnings.push(text), error: (text) => warnings.push(text) },
  });
  onTestFinished(() => engine.close());
  return { engine, conflicts, warnings };
}

test("a batch that the server rolls back because of a deadlock is tried again, counted and logged", async () => {
  const place = await ground();
  const { schema, client } = place;
  const { engine, conflicts, warnings } = await watched(place);
  const run = { pipeline: "p", stages: [{ name: "only", joins: false }] };
  const [added] = await engine.execute([{ verb: "add", tasks: [{ queue: "p/only", data: "1", run }] }]);
  const { id } = (added as { ok: AddedTask[] }).ok[0]!;
  const other = await client();
  await other.query(`SET deadlock_timeout = '300s'; BEGIN; SELECT 1 FROM ${schema}.run FOR UPDATE`);
  const cancelling = engine.execute([{ verb: "cancelRun", id }]);
  await untilBlockedBy(await client(), other);
  // The batch waits for the run, and shares the catalogue: now each waits for the other.
  await other.query(`SELECT pg_advisory_xact_lock(${catalogueLock(schema)}); COMMIT`);
  expect(await cancelling).toEqual([{ ok: { state: "cancelled" } }]);
  expect(conflicts).toEqual([{ conflict: "deadlock" }]);
  expect(warnings).toEqual([expect.stringContaining("because of a deadlock. It is tried again.")]);
});

test("a batch that the server rolls back because of a serialization failure is tried again, counted and logged", async () => {
  const place = await ground();
  const { schema } = place;
  const { engine, conflicts, warnings } = await watched(place);
  const client = await place.client();
  // Batches read what is committed, so only a trigger of the administrator's raises this. A rollback does not reset a
  // sequence, so the trigger refuses once.
  await client.query(`
    CREATE SEQUENCE ${schema}.tries;
    CREATE FUNCTION ${schema}.refuse_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF nextval('${schema}.tries') = 1 THEN
        RAISE EXCEPTION 'could not serialize access' USING ERRCODE = 'serialization_failure';
      END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER refuse_once AFTER INSERT ON ${schema}.task EXECUTE FUNCTION ${schema}.refuse_once()`);
  expect(await run(engine, { verb: "add", tasks: [{ queue: "work", data: "1" }] })).toHaveLength(1);
  expect((await client.query(`SELECT 1 FROM ${schema}.task`)).rowCount).toBe(1);
  expect(conflicts).toEqual([{ conflict: "serialization" }]);
  expect(warnings).toEqual([
    expect.stringContaining("because of a serialization failure. It is tried again."),
  ]);
});

/** Executes one operation that must not be refused. */
async function run<V extends keyof Verbs>(engine: Engine, op: Op<V>): Promise<Verbs[V]["out"]> {
  const [outcome] = await engine.execute([op]);
  expect(outcome).toHaveProperty("ok");
  return (outcome as { ok: Verbs[V]["out"] }).ok;
}

async function untilBlockedBy(watching: Client, other: Client): Promise<void> {
  const pid = (await other.query<{ pid: number }>(`SELECT pg_backend_pid() AS pid`)).rows[0]!.pid;
  const sql = `SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`;
  while ((await watching.query(sql, [pid])).rowCount === 0) await sleep(5);
}

async function runProcess(url: string, seed: number): Promise<ProcessReport> {
  const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, url, `${seed}`, `${STEPS}`]);
  return JSON.parse(stdout) as ProcessReport;
}

/** The server's log of deadlocks: which statements waited for each other. */
function deadlocksIn(log: string): string {
  const entries = log.split(/\n(?=\d{4}-)/).map((entry) => entry.replaceAll(/\s+/g, " "));
  return entries.filter((entry) => entry.includes("DETAIL: Process")).join("\n");
}
