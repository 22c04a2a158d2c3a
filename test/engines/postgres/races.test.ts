import { expect, test } from "vitest";
import type { AddedTask } from "../../../src/core/task/task.ts";
import type { Engine, Op } from "../../../src/engine/engine.ts";
import { catalogueLock, gateLock } from "../../../src/engines/postgres/connection/locks.ts";
import { ground, pauseIn, untilOneWaits } from "./kit.ts";
import { claimAll, done, ERROR, failed, heldBy, joinAs, named, run, setUp, signalled } from "./verbs.ts";

/** Two processes at the same time: one of them is made to wait in the middle of its work. */

const PIPELINE = { pipeline: "p", stages: [{ name: "work", joins: false }] };
/** Failed tasks go to the retry-elsewhere line, because there are two workers. */
async function keepFrom(engine: Engine): Promise<void> {
  await run(engine, { verb: "declare", queue: "work", policy: { elsewhere: 60_000 } });
  for (const id of ["w", "other"]) await joinAs(engine, id);
}

test("a task added to a sticky group while its worker is found dead can be claimed by any worker", async () => {
  const { engine, client, schema } = await ground();
  const [here, there, locking, looking] = [await engine(), await engine(), await client(), await client()];
  await run(here, { verb: "declare", queue: "work", policy: { groups: { sticky: true } } });
  const session = await joinAs(here, "w");
  await run(here, { verb: "add", tasks: [named("1", "g")] });
  const [first] = await claimAll(here, { session });
  await run(here, done(first!));
  await locking.query("BEGIN");
  await locking.query(`LOCK TABLE ${schema}.delta IN SHARE MODE`);
  const adding = run(there, { verb: "add", tasks: [named("2", "g")] });
  await untilOneWaits(locking, schema);
  // The worker was alive when the add read its session.
  await looking.query(`UPDATE ${schema}.session SET heartbeat_at = 0; DELETE FROM ${schema}.floor`);
  const { next } = await run(here, { verb: "housekeep" });
  await locking.query("COMMIT");
  await adding;
  await run(here, { verb: "housekeep" });
  expect((await looking.query(`SELECT 1 FROM ${schema}.session`)).rowCount).toBe(0);
  expect((await claimAll(here)).map(({ data }) => data)).toEqual(["2"]);
  // While the gate is locked, the sweep is retried after a pause.
  expect(next).toBeGreaterThan(0);
});

test("a worker that rejoins waits for the gate of a queue with sticky tasks for it", async () => {
  const { engine, client, schema } = await ground();
  const [here, locking, looking] = [await engine(), await client(), await client()];
  await run(here, { verb: "declare", queue: "work", policy: { groups: { sticky: true } } });
  const session = await joinAs(here, "w");
  await run(here, { verb: "add", tasks: [named("1", "g")] });
  await run(here, done((await claimAll(here, { session }))[0]!));
  await run(here, { verb: "add", tasks: [named("2", "g")] });
  const { rows } = await looking.query<{ queue: number }>(`SELECT queue FROM ${schema}.ready_sticky`);
  // As if the policy had stopped being sticky meanwhile.
  await looking.query(`UPDATE ${schema}.lane SET session = NULL`);
  // Plays a process that removes tasks of a group from the line because of a new policy.
  const gate = `pg_advisory_xact_lock(${gateLock(schema, rows[0]!.queue)})`;
  await locking.query(`BEGIN; SELECT ${gate}`);
  const rejoining = run(here, { verb: "rejoin", session, fences: [] });
  const rejoined = rejoining.then(() => "rejoined");
  expect(await Promise.race([rejoined, untilOneWaits(looking, gate).then(() => "waits")])).toBe("waits");
  await locking.query("COMMIT");
  const moved = await rejoining;
  const { rows: own } = await looking.query(`SELECT session::int4 FROM ${schema}.ready_sticky`);
  expect(own).toEqual([{ session: moved.session }]);
});

test("retention keeps as many ended tasks and runs as promised, even if two processes prune", async () => {
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

test("no task of a group with a hold starts, not even one that just left the retry-elsewhere line", async () => {
  const { engine, client, schema } = await ground();
  const [here, locking] = [await engine(), await client()];
  await run(here, { verb: "declare", queue: "work", policy: { groups: { concurrency: 2 } } });
  const [one] = [await joinAs(here, "w"), await joinAs(here, "x")];
  await run(here, { verb: "add", tasks: [named("1", "g"), named("2", "g")] });
  const [first, second] = await claimAll(here, { session: one });
  await run(here, failed(first!));
  // Plays another process that moves the task from the retry-elsewhere line.
  await locking.query("BEGIN");
  const opened = await locking.query(
    `WITH opened AS (
       DELETE FROM ${schema}.ready_elsewhere RETURNING queue, rank, pos, task, failures, special, group_key)
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

test("a dead task that is redriven while its run is cancelled is cancelled too", async () => {
  const { engine, client, schema } = await ground();
  const [here, locking] = [await engine(), await client()];
  const [added] = await run(here, { verb: "add", tasks: [{ ...named("1"), run: PIPELINE }] });
  const [held] = await claimAll(here);
  await run(here, { verb: "settle", ...heldBy(held!), settlement: { kind: "reject", error: ERROR } });
  // Plays another process that has found no task of the run in the line.
  await locking.query("BEGIN");
  await locking.query(`UPDATE ${schema}.run SET state = 'cancelled', ended_at = 1`);
  const redriving = run(here, { verb: "redrive", queue: "work", filter: {}, spacing: 0 });
  await untilOneWaits(locking, schema);
  await locking.query("COMMIT");
  expect(await redriving).toEqual({ count: 1 });
  expect(await run(here, { verb: "get", id: added!.id })).toMatchObject({ state: "cancelled" });
  expect(await claimAll(here)).toEqual([]);
});

test("a run keeps the end of a part whose task is deleted while its result is joined", async () => {
  const { engine, client, schema } = await ground();
  const [here, locking] = [await engine(), await client()];
  const stages = ["cut", "work", "merge"].map((name) => ({ name, joins: name === "merge" }));
  const beginning = { ...named("0"), queue: "p/cut", run: { pipeline: "p", stages } };
  const [begun] = await run(here, { verb: "add", tasks: [beginning] });
  const [cut] = await claimAll(here, { queues: ["p/cut"] });
  const settlement = { kind: "done", result: "[1,2]", each: true } as const;
  await run(here, { verb: "settle", ...heldBy(cut!), settlement });
  const [first] = await claimAll(here, { queues: ["p/work"] });
  await run(here, done(first!));
  await run(here, { verb: "declare", queue: "p/work", policy: { retention: { age: 60_000, count: 0 } } });
  // Plays another process that settles the other part.
  await locking.query("BEGIN");
  const gathered = await locking.query(
    `UPDATE ${schema}.run_part SET awaits_join = false, result = NULL, result_bytes = NULL WHERE awaits_join`,
  );
  expect(gathered.rowCount).toBe(1);
  const pruning = run(here, { verb: "prune", limit: 10 });
  await untilOneWaits(locking, schema);
  await locking.query("COMMIT");
  expect(await pruning).toEqual({ removed: 1, more: false });
  const { parts } = await run(here, { verb: "run", id: begun!.id, limit: 10 });
  expect(parts).toMatchObject([{ state: "done" }, { id: first!.id, state: "done" }, { state: "claimed" }]);
});

test("a signal that is stored while its task's success is settled is deleted with the task", async () => {
  const { engine, client, schema } = await ground();
  const [here, locking] = [await engine(), await client()];
  await run(here, { verb: "add", tasks: [named("1", "g")] });
  const [held] = await claimAll(here);
  // Plays another process that has locked the task's claim to store a signal.
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

// The statement finds claims by their location, so it skips changed ones or gets their new version.
test("successes are settled even if their claims change at the same time", async () => {
  const { engine, client, schema } = await ground();
  const [here, locking] = [await engine(), await client()];
  for (const result of [null, "1"]) {
    await run(here, { verb: "add", tasks: [named("1"), named("2"), named("3", "g"), named("4")] });
    const tasks = await claimAll(here);
    await locking.query("BEGIN");
    await locking.query(`UPDATE ${schema}.claim SET deadline = deadline + 1`);
    await locking.query(`UPDATE ${schema}.claim SET cancelled = true WHERE fence = $1`, [tasks[3]!.fence]);
    const settlement = { kind: "done", result } as const;
    const settling = here.execute(tasks.map((task) => ({ verb: "settle", ...heldBy(task), settlement })));
    await untilOneWaits(locking, schema);
    await locking.query("COMMIT");
    const states = ["done", "done", "done", "cancelled"];
    expect(await settling).toEqual(states.map((state) => ({ ok: { state } })));
  }
  const { depth } = await run(here, { verb: "stats", queue: "work" });
  expect(depth).toMatchObject({ claimed: 0, done: 6, cancelled: 2 });
});

test("a task that gets a signal while a claim takes it is claimed once", async () => {
  const { place, here, there } = await setUp();
  const [first, second] = await run(here, { verb: "add", tasks: [named("1"), named("2")] });
  const pause = await pauseIn(place, "WITH calm");
  const claiming = claimAll(here);
  await pause.reached();
  expect(await run(there, signalled(first!.id))).toEqual({ kept: true, state: "ready" });
  await pause.continueRun();
  const tasks = [...(await claiming), ...(await claimAll(here))];
  expect(tasks).toMatchObject([{ id: second!.id }, { id: first!.id, stepped: true }]);
  for (const task of tasks) await run(here, done(task));
  const { depth } = await run(here, { verb: "stats", queue: "work" });
  expect(depth).toMatchObject({ ready: 0, claimed: 0, done: 4 });
});

test("a retried task keeps a signal that it gets while a claim takes it", async () => {
  const { place, here, there } = await setUp();
  await keepFrom(here);
  const [added] = await run(here, { verb: "add", tasks: [named("1")] });
  for (const task of await claimAll(here)) await run(here, failed(task));
  const pause = await pauseIn(place, "special, avoid FROM");
  const claiming = claimAll(here, { worker: "other" });
  await pause.reached();
  expect(await run(there, signalled(added!.id))).toEqual({ kept: true, state: "ready" });
  await pause.continueRun();
  const tasks = [...(await claiming), ...(await claimAll(here, { worker: "other" }))];
  expect(tasks).toMatchObject([{ id: added!.id, attempt: 2, stepped: true }]);
});

test("a task keeps a signal that it gets while it becomes due", async () => {
  const { place, here, there } = await setUp();
  const [added] = await run(here, { verb: "add", tasks: [named("1")] });
  for (const task of await claimAll(here)) await run(here, failed(task, 1));
  const pause = await pauseIn(place, "blocks_group%FOR UPDATE OF scheduled");
  const claiming = claimAll(here);
  await pause.reached();
  expect(await run(there, signalled(added!.id))).toEqual({ kept: true, state: "scheduled" });
  await pause.continueRun();
  const tasks = [...(await claiming), ...(await claimAll(here))];
  expect(tasks).toMatchObject([{ id: added!.id, attempt: 2, stepped: true }]);
});

test("tasks that a claim locked and left in the line are hinted, because other claims have skipped them", async () => {
  const { here } = await setUp();
  await keepFrom(here);
  await run(here, { verb: "add", tasks: ["1", "2", "3"].map((name) => named(name)) });
  for (const task of await claimAll(here)) await run(here, failed(task));
  const hints: unknown[] = [];
  here.onHint((hint) => hints.push(hint.ready));
  expect(await claimAll(here, { worker: "other", max: 1 })).toHaveLength(1);
  expect(hints).toContainEqual({ work: 2 });
});

test("a task that a caller's transaction has just added can be cancelled and gets signals", async () => {
  const { place, here, there } = await setUp();
  const { schema } = place;
  for (const [end, outcome] of [
    [(id: string): Op => ({ verb: "cancel", id }), { state: "cancelled" }],
    [signalled, { kept: true, state: "ready" }],
  ] as const) {
    await run(here, { verb: "add", tasks: [named("held")] });
    const [held] = await claimAll(here);
    const client = await place.client();
    await client.query("BEGIN");
    await client.query(`SELECT 1 FROM ${schema}.claim FOR UPDATE`);
    const added = await there.executeInTransaction!(client, { verb: "add", tasks: [named("new")] });
    const { id } = (added as { ok: AddedTask[] }).ok[0]!;
    // The batch begins before that commit, and reaches the task after it.
    const running = here.execute([{ verb: "progress", ...heldBy(held!), value: 0.5, note: null }, end(id)]);
    await untilOneWaits(client, schema);
    await client.query("COMMIT");
    expect((await running)[1]).toEqual({ ok: outcome });
    for (const task of [held!, ...(await claimAll(here))]) await run(here, done(task));
  }
});

test("a queue is dropped with tasks of callers' transactions that are still in the inbox", async () => {
  const { place, here, there } = await setUp();
  const client = await place.client();
  await client.query("BEGIN");
  await there.executeInTransaction!(client, {
    verb: "add",
    tasks: Array.from({ length: 1_500 }, () => named("0")),
  });
  await client.query("COMMIT");
  const { removed, more } = await run(here, { verb: "drop", queue: "work", limit: 2_000 });
  expect([removed, more]).toEqual([1_502, false]);
  expect((await client.query(`SELECT 1 FROM ${place.schema}.task`)).rowCount).toBe(0);
});

test("a queue is dropped with tasks of a caller's transaction whose numbers are below the position reached", async () => {
  const { place, here, there } = await setUp();
  const client = await place.client();
  await client.query("BEGIN");
  await there.executeInTransaction!(client, { verb: "add", tasks: [{ ...named("0"), delay: 600_000 }] });
  const others = Array.from({ length: 10_000 }, () => ({ queue: "other", data: "0" }));
  for (let i = 0; i < 6; i++) await run(here, { verb: "add", tasks: others });
  const drop = { verb: "drop", queue: "work", limit: 2_000 } as const;
  expect(await run(here, drop)).toMatchObject({ more: true });
  await client.query("COMMIT");
  await run(there, { verb: "housekeep" });
  while ((await run(here, drop)).more);
  expect((await client.query(`SELECT 1 FROM ${place.schema}.scheduled`)).rowCount).toBe(0);
});

test("a queue that was created again gets its first limits in an exclusive batch", async () => {
  const { place, here, there } = await setUp();
  const third = await place.engine();
  const { schema } = place;
  const [client, looking] = [await place.client(), await place.client()];
  const rateLimit = [{ max: 1, per: 3_600_000, unit: null, pace: false }];
  const declare: Op<"declare"> = { verb: "declare", queue: "work", policy: { rateLimit } };
  await run(here, declare);
  // Then it is another queue, which the first process does not know.
  while ((await run(there, { verb: "drop", queue: "work", limit: 100 })).more);
  await run(there, { verb: "add", tasks: [named("1"), named("2"), { queue: "held", data: "0" }] });
  const [held] = await claimAll(third, { queues: ["held"] });
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM ${schema}.claim FOR UPDATE`);
  const claim: Op<"claim"> = { verb: "claim", queues: ["work"], max: 2, worker: "w", lease: 60_000 };
  const claiming = third.execute([{ verb: "progress", ...heldBy(held!), value: 0.5, note: null }, claim]);
  await untilOneWaits(client, schema);
  const course: string[] = [];
  const declaring = run(here, declare).then(() => course.push("declared"));
  await Promise.race([declaring, untilOneWaits(looking, `pg_advisory_xact_lock(${catalogueLock(schema)})`)]);
  course.push("claimed");
  await client.query("COMMIT");
  await claiming;
  await declaring;
  expect(course).toEqual(["claimed", "declared"]);
});

test("each reading batch sees one snapshot, even if several read at once", async () => {
  const { here, there } = await setUp();
  const isOver = new AbortController();
  const adding = (async () => {
    while (!isOver.signal.aborted) await run(there, { verb: "add", tasks: [named("1")] });
  })();
  const looks: Op<"stats">[] = Array.from({ length: 20 }, () => ({ verb: "stats", queue: "work" }));
  for (let n = 0; n < 5; n++) {
    const batches = await Promise.all([here.execute(looks), here.execute(looks), here.execute(looks)]);
    for (const seen of batches) expect(new Set(seen.map((each) => JSON.stringify(each))).size).toBe(1);
  }
  isOver.abort();
  await adding;
});
