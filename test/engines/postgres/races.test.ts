import { expect, test } from "vitest";
import type { ClaimedTask } from "../../../src/core/task.ts";
import type { Engine, Op, VerbName, Verbs } from "../../../src/engine/engine.ts";
import { BEGIN } from "../../../src/engines/postgres/link.ts";
import { catalogueLock } from "../../../src/engines/postgres/locks.ts";
import { ground, untilOneWaits } from "./kit.ts";

/** What two processes do at one moment: one of them is made to wait for a lock of a client's before its commit. */

const PIPELINE = { pipeline: "p", stages: [{ name: "work", joins: false }] };
const ERROR = { name: "Error", message: "it broke", stack: null };

async function run<V extends VerbName>(engine: Engine, op: Op<V>): Promise<Verbs[V]["out"]> {
  const [outcome] = await engine.run([op]);
  expect(outcome).toHaveProperty("ok");
  return (outcome as { ok: Verbs[V]["out"] }).ok;
}

async function claimAll(engine: Engine, session?: number): Promise<ClaimedTask[]> {
  const request = { queues: ["work"], max: 10, worker: "w", lease: 60_000, ...(session && { session }) };
  return (await run(engine, { verb: "claim", ...request })).tasks;
}

async function joinAs(engine: Engine, id: string): Promise<number> {
  const worker = { id, name: id, queues: ["work"], concurrency: 1, host: "host", pid: 1 };
  return (await run(engine, { verb: "join", worker, lease: 60_000 })).session;
}

function named(data: string, groupKey?: string) {
  return { queue: "work", data, ...(groupKey !== undefined && { groupKey }) };
}

function heldBy({ id, fence }: ClaimedTask): { id: string; fence: number } {
  return { id, fence };
}

function done(task: ClaimedTask): Op<"settle"> {
  return { verb: "settle", ...heldBy(task), settlement: { kind: "done", result: null } };
}

test("what is added to a worker's group while that worker is found to be dead is anybody's", async () => {
  const { engine, client, schema } = await ground();
  const [here, there, locking, looking] = [await engine(), await engine(), await client(), await client()];
  await run(here, { verb: "declare", queue: "work", policy: { groups: { sticky: true } } });
  const session = await joinAs(here, "w");
  await run(here, { verb: "add", tasks: [named("1", "g")] });
  const [first] = await claimAll(here, session);
  await run(here, done(first!));
  await locking.query("BEGIN");
  await locking.query(`LOCK TABLE ${schema}.delta IN SHARE MODE`);
  const adding = run(there, { verb: "add", tasks: [named("2", "g")] });
  await untilOneWaits(locking, schema);
  // It was alive when the other one looked.
  await looking.query(`UPDATE ${schema}.session SET beat_at = 0`);
  const { next } = await run(here, { verb: "tend" });
  await locking.query("COMMIT");
  await adding;
  await run(here, { verb: "tend" });
  expect((await looking.query(`SELECT 1 FROM ${schema}.session`)).rowCount).toBe(0);
  expect((await claimAll(here)).map(({ data }) => data)).toEqual(["2"]);
  // While somebody has the gate it is looked at again, but not without a pause.
  expect(next).toBeGreaterThan(0);
});

test("as many ended tasks and runs are kept as is promised, also where two processes see to it", async () => {
  const { engine, client, schema } = await ground();
  const [here, there, locking] = [await engine(), await engine(), await client()];
  const retention = { age: 60_000, count: 5 };
  await run(here, { verb: "declare", queue: "work", policy: { retention } });
  const tasks = Array.from({ length: 10 }, (_, n) => ({ ...named(`${n}`), run: PIPELINE }));
  await run(here, { verb: "add", tasks });
  for (const each of await claimAll(here)) await run(here, done(each));
  await locking.query("BEGIN");
  await locking.query(`LOCK TABLE ${schema}.run IN SHARE MODE`);
  const pruning = run(here, { verb: "prune", limit: 4 });
  await untilOneWaits(locking, schema);
  expect(await run(there, { verb: "prune", limit: 4 })).toEqual({ removed: 0, more: false });
  await locking.query("COMMIT");
  expect(await pruning).toEqual({ removed: 4, more: true });
  expect(await run(there, { verb: "prune", limit: 4 })).toEqual({ removed: 1, more: false });
  const { rows } = await locking.query(
    `SELECT (SELECT count(*)::int4 FROM ${schema}.ended) AS tasks, (SELECT count(*)::int4 FROM ${schema}.run) AS runs`,
  );
  expect(rows).toEqual([{ tasks: 5, runs: 5 }]);
});

test("none of a group that is held back starts, not even one that nobody is kept from any more at that moment", async () => {
  const { engine, client, schema } = await ground();
  const [here, locking] = [await engine(), await client()];
  await run(here, { verb: "declare", queue: "work", policy: { groups: { concurrency: 2 } } });
  const [one] = [await joinAs(here, "w"), await joinAs(here, "x")];
  await run(here, { verb: "add", tasks: [named("1", "g"), named("2", "g")] });
  const [first, second] = await claimAll(here, one);
  await run(here, {
    verb: "settle",
    ...heldBy(first!),
    settlement: { kind: "fail", error: ERROR, delay: 0 },
  });
  // As another process does that finds it kept for long enough.
  await locking.query("BEGIN");
  const opened = await locking.query(
    `WITH opened AS (
       DELETE FROM ${schema}.kept RETURNING queue, rank, pos, task, failures, special, group_key)
     INSERT INTO ${schema}.ready (queue, rank, pos, task, failures, special, group_key) SELECT * FROM opened`,
  );
  expect(opened.rowCount).toBe(1);
  const holding = run(here, {
    ...{ verb: "settle", ...heldBy(second!) },
    settlement: { kind: "hold", error: ERROR, delay: 60_000 },
  });
  await untilOneWaits(locking, schema);
  await locking.query("COMMIT");
  expect(await holding).toEqual({ state: "waiting" });
  expect(await claimAll(here)).toEqual([]);
});

test("a dead task that is redriven while its run is cancelled ends with that", async () => {
  const { engine, client, schema } = await ground();
  const [here, locking] = [await engine(), await client()];
  const [added] = await run(here, { verb: "add", tasks: [{ ...named("1"), run: PIPELINE }] });
  const [held] = await claimAll(here);
  await run(here, { verb: "settle", ...heldBy(held!), settlement: { kind: "reject", error: ERROR } });
  // As another process does that has found nothing of the run in line.
  await locking.query("BEGIN");
  await locking.query(`UPDATE ${schema}.run SET state = 'cancelled', ended_at = 1`);
  const redriving = run(here, { verb: "redrive", queue: "work", filter: {}, spacing: 0 });
  await untilOneWaits(locking, schema);
  await locking.query("COMMIT");
  expect(await redriving).toEqual({ count: 1 });
  expect(await run(here, { verb: "get", id: added!.id })).toMatchObject({ state: "cancelled" });
  expect(await claimAll(here)).toEqual([]);
});

test("a signal that is kept while its task's success is settled goes with the task", async () => {
  const { engine, client, schema } = await ground();
  const [here, locking] = [await engine(), await client()];
  await run(here, { verb: "add", tasks: [named("1", "g")] });
  const [held] = await claimAll(here);
  // As another process does that has the task's claim locked for its signal.
  await locking.query("BEGIN");
  await locking.query(`SELECT 1 FROM ${schema}.claim FOR UPDATE`);
  await locking.query(
    `INSERT INTO ${schema}.step (task, kind, name) SELECT task, 'signal', 'go' FROM ${schema}.claim`,
  );
  const settling = run(here, done(held!));
  await untilOneWaits(locking, schema);
  await locking.query("COMMIT");
  expect(await settling).toEqual({ state: "done" });
  expect((await locking.query(`SELECT 1 FROM ${schema}.step`)).rowCount).toBe(0);
});

test("a group that is moved away while its queue is held back for the first time goes on in order", async () => {
  const { engine, client, schema } = await ground();
  const [here, there, locking, looking] = [await engine(), await engine(), await client(), await client()];
  const tasks = [named("held", "g"), ...["1", "2", "3"].map((name) => named(name, "h"))];
  await run(here, { verb: "add", tasks });
  const request = { queues: ["work"], max: 1, worker: "w", lease: 60_000 };
  const [held] = (await run(here, { verb: "claim", ...request })).tasks;
  await locking.query("BEGIN");
  await locking.query(`LOCK TABLE ${schema}.aside IN SHARE MODE`);
  const departing = run(there, { verb: "depart", queue: "work", to: 1, limit: 10 });
  await untilOneWaits(locking, schema);
  const holding = run(here, {
    ...{ verb: "settle", ...heldBy(held!) },
    settlement: { kind: "hold", error: ERROR, delay: 60_000 },
  });
  // It waits for the others before it begins.
  const beginning = `${BEGIN}; SELECT pg_advisory_xact_lock(${catalogueLock(schema)})`;
  await Promise.race([holding, untilOneWaits(looking, beginning)]);
  await locking.query("COMMIT");
  const departed = await departing;
  await holding;
  expect(departed.map(({ data }) => data)).toEqual(["1", "2", "3"]);
  const gone = departed.map(({ origin }) => ({ id: origin, cancelled: false }));
  await run(there, { verb: "gone", tasks: gone });
  await run(here, { verb: "add", tasks: ["4", "5"].map((name) => named(name, "h")) });
  expect((await claimAll(here)).map(({ data }) => data)).toEqual(["4"]);
});
