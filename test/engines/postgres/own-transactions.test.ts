import { expect, test } from "vitest";
import type { Engine, Op } from "../../../src/engine/engine.ts";
import { gateLock } from "../../../src/engines/postgres/connection/locks.ts";
import { type Ground, ground, untilOneWaits } from "./kit.ts";
import { claimAll, done, joinAs, named, run, setUp } from "./verbs.ts";

/** Callers' transactions and batches of dibs at the same time. */

/** A caller's transaction that has taken a key, and an add that waits for the end of that transaction. */
async function waitingForCaller(place: Ground, engine: Engine) {
  const [tx, looking] = [await place.client(), await place.client()];
  await tx.query("BEGIN");
  const keyed: Op<"add"> = { verb: "add", tasks: [{ ...named("1"), idempotencyKey: "k" }] };
  await engine.executeInTransaction!(tx, keyed);
  const waiting = run(engine, keyed);
  await untilOneWaits(looking, place.schema);
  return { tx, waiting };
}

test("a caller's transaction continues while a batch of its process waits for it", async () => {
  const place = await ground();
  const here = await place.engine();
  await run(here, { verb: "declare", queue: "work", policy: { maxDepth: 10 } });
  const [held] = await run(here, { verb: "add", tasks: [named("0")] });
  const [claimed] = await claimAll(here);
  const { tx, waiting } = await waitingForCaller(place, here);
  await here.executeInTransaction!(tx, { verb: "add", tasks: [named("2"), { queue: "new", data: "3" }] });
  await here.executeInTransaction!(tx, done(claimed!));
  await tx.query("COMMIT");
  expect(await waiting).toMatchObject([{ existing: true }]);
  expect(await run(here, { verb: "get", id: held!.id })).toMatchObject({ state: "done" });
  expect((await claimAll(here)).map(({ data }) => data)).toEqual(["1", "2"]);
});

test("batches continue while an exclusive batch waits for an open transaction", async () => {
  const { place, here, there } = await setUp();
  const { tx, waiting } = await waitingForCaller(place, here);
  const pausing = run(there, { verb: "pause", queue: "work", paused: true });
  const another = await place.engine();
  for (let n = 0; n < 20; n++) await run(another, { verb: "add", tasks: [named("2")] });
  await tx.query("COMMIT");
  await Promise.all([waiting, pausing]);
  expect(await claimAll(here)).toEqual([]);
});

/** Adds tasks in a caller's transaction, and commits it. */
async function commitWithin(place: Ground, engine: Engine, op: Op<"add">): Promise<void> {
  const tx = await place.client();
  await tx.query("BEGIN");
  await engine.executeInTransaction!(tx, op);
  await tx.query("COMMIT");
}

test("a queue that is newer than a batch is not taken for a dropped one", async () => {
  const place = await ground();
  const [here, there, locking] = [await place.engine(), await place.engine(), await place.client()];
  await run(here, { verb: "declare", queue: "work", policy: {} });
  await commitWithin(place, here, { verb: "add", tasks: [named("1", "g")] });
  await locking.query("BEGIN");
  await locking.query(`SELECT 1 FROM ${place.schema}.inbox FOR UPDATE`);
  const adding = run(here, { verb: "add", tasks: [named("2", "g")] });
  await untilOneWaits(locking, place.schema);
  await commitWithin(place, there, { verb: "add", tasks: [{ queue: "new", data: "3" }] });
  await locking.query("COMMIT");
  await adding;
  expect(await claimAll(here, { queues: ["new"] })).toMatchObject([{ data: "3" }]);
  expect(await claimAll(here)).toMatchObject([{ data: "1" }]);
});

test("inbox entries of a queue whose gate is locked do not delay other queues", async () => {
  const place = await ground();
  const [here, locking] = [await place.engine(), await place.client()];
  await run(here, { verb: "declare", queue: "limited", policy: { groups: { concurrency: 2 } } });
  const session = await joinAs(here, "w");
  const { rows } = await locking.query(`SELECT id FROM ${place.schema}.queue`);
  const gate = gateLock(place.schema, rows[0].id as number);
  await locking.query(`SELECT pg_advisory_lock(${gate})`);
  await commitWithin(place, here, { verb: "add", tasks: [{ queue: "limited", data: "1", groupKey: "g" }] });
  await run(here, { verb: "add", tasks: [named("2")] });
  expect(await run(here, { verb: "heartbeat", sessions: [session] })).toEqual({ notices: [] });
  expect(await claimAll(here)).toMatchObject([{ data: "2" }]);
  await locking.query(`SELECT pg_advisory_unlock(${gate})`);
  expect(await claimAll(here, { queues: ["limited"] })).toMatchObject([{ data: "1" }]);
});

test("batches continue while an exclusive batch waits for a lock of a caller's transaction", async () => {
  const place = await ground();
  const [here, there, tx] = [await place.engine(), await place.engine(), await place.client()];
  await run(here, { verb: "add", tasks: [named("1")] });
  const [claimed] = await claimAll(here);
  await tx.query("BEGIN");
  await here.executeInTransaction!(tx, done(claimed!));
  const declaring = run(there, { verb: "declare", queue: "work", policy: { maxConcurrency: 1 } });
  for (let n = 0; n < 20; n++) await run(here, { verb: "add", tasks: [named("2")] });
  await tx.query("COMMIT");
  await declaring;
  expect(await claimAll(here)).toHaveLength(1);
});

test("an inbox entry behind one that another process is processing is left to that process", async () => {
  const place = await ground();
  const [here, taking] = [await place.engine(), await place.client()];
  await commitWithin(place, here, { verb: "add", tasks: [named("1", "g")] });
  await taking.query("BEGIN");
  await taking.query(`SELECT 1 FROM ${place.schema}.inbox FOR UPDATE`);
  await commitWithin(place, here, { verb: "add", tasks: [named("2", "g"), named("3", "h"), named("4")] });
  expect(await claimAll(here)).toMatchObject([{ data: "3" }, { data: "4" }]);
  await taking.query("ROLLBACK");
  expect(await claimAll(here)).toMatchObject([{ data: "1" }]);
});

test("a task can end while a transaction that added its key again is open", async () => {
  const place = await ground();
  const [here, tx] = [await place.engine(), await place.client()];
  const keyed: Op<"add"> = { verb: "add", tasks: [{ ...named("1"), idempotencyKey: "k" }] };
  const [added] = await run(here, keyed);
  const [claimed] = await claimAll(here);
  await tx.query("BEGIN");
  expect(await here.executeInTransaction!(tx, keyed)).toMatchObject({
    ok: [{ id: added!.id, existing: true }],
  });
  expect(await run(here, done(claimed!))).toEqual({ state: "done" });
  await tx.query("COMMIT");
});

test("heartbeats continue while a claim of the worker waits for its commit", async () => {
  const place = await ground();
  const [here, there, tx] = [await place.engine(), await place.engine(), await place.client()];
  const session = await joinAs(here, "w");
  await run(here, { verb: "add", tasks: [named("1"), named("2")] });
  await claimAll(here, { session, max: 1 });
  await tx.query("BEGIN");
  const keyed: Op<"add"> = { verb: "add", tasks: [{ ...named("3"), idempotencyKey: "k" }] };
  await there.executeInTransaction!(tx, keyed);
  const claim: Op<"claim"> = { verb: "claim", queues: ["work"], max: 1, worker: "w", lease: 60_000, session };
  const claiming = here.execute([claim, keyed]);
  await untilOneWaits(tx, place.schema);
  expect(await run(there, { verb: "heartbeat", sessions: [session] })).toEqual({ notices: [] });
  await tx.query("COMMIT");
  const [claimed] = await claiming;
  expect(claimed).toMatchObject({ ok: { tasks: [{ data: "2" }] } });
});

test("adds after a rolled-back savepoint are gone, and the other adds commit and wake waiting claims", async () => {
  const place = await ground();
  const [dibs, tx] = [await place.open({ poll: "1m" }), await place.client()];
  const queue = dibs.queue<string>("work");
  const waiting = queue.claim({ wait: "20s", max: 10 });
  await tx.query("BEGIN");
  await tx.query("SAVEPOINT one");
  const undone = await queue.add("undone", { tx, groupKey: "g", idempotencyKey: "k" });
  await tx.query("ROLLBACK TO one");
  await tx.query("SAVEPOINT two");
  const kept = await queue.add("kept", { tx, groupKey: "g", idempotencyKey: "k" });
  await tx.query("RELEASE two");
  await tx.query("SAVEPOINT three");
  await queue.add("undone too", { tx });
  await tx.query("ROLLBACK TO three");
  await tx.query("COMMIT");
  expect([kept.existing, (await waiting).map(({ data }) => data)]).toEqual([false, ["kept"]]);
  await expect(undone.info()).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
  expect((await queue.stats()).depth).toMatchObject({ ready: 0, waiting: 0, claimed: 1 });
});

test("an ack after a rolled-back savepoint has no effect, and the claim stays valid", async () => {
  const place = await ground();
  const [dibs, tx] = [await place.open(), await place.client()];
  const queue = dibs.queue<string, string>("work");
  const task = await queue.add("1");
  const [claim] = await queue.claim();
  await tx.query("BEGIN");
  await tx.query("SAVEPOINT one");
  await claim!.ack("undone", { tx });
  await tx.query("ROLLBACK TO one");
  await claim!.ack("kept", { tx });
  await tx.query("COMMIT");
  expect(await task.result()).toBe("kept");
});

test("a savepoint restores what a failed statement undid", async () => {
  const place = await ground();
  const [dibs, tx] = [await place.open(), await place.client()];
  const queue = dibs.queue<string>("work");
  await tx.query("BEGIN");
  await queue.add("1", { tx });
  await tx.query("SAVEPOINT one");
  await expect(tx.query("SELECT 1 / 0")).rejects.toThrow("division by zero");
  await expect(queue.add("2", { tx })).rejects.toMatchObject({ code: "INVALID" });
  await tx.query("ROLLBACK TO one");
  await queue.add("3", { tx });
  await tx.query("COMMIT");
  expect((await queue.claim({ max: 10 })).map(({ data }) => data)).toEqual(["1", "3"]);
});

test("without notifications, the same process finds a caller's adds as soon as they are committed", async () => {
  const place = await ground();
  const [dibs, tx] = [await place.open({ listen: false, poll: "1m" }), await place.client()];
  const queue = dibs.queue<string, string>("work");
  for (const n of ["1", "2"]) {
    const waiting = queue.claim({ wait: "20s" });
    await tx.query("BEGIN");
    const task = await queue.add(n, { tx });
    await tx.query("COMMIT");
    const [claim] = await waiting;
    expect(claim?.data).toBe(n);
    const result = task.result({ timeout: "20s" });
    await tx.query("BEGIN");
    await claim!.ack("r", { tx });
    await tx.query("COMMIT");
    expect(await result).toBe("r");
  }
});

test("without notifications, a transaction that is rolled back or left open wakes no claim", async () => {
  const place = await ground();
  const [dibs, tx] = [await place.open({ listen: false, poll: "1m" }), await place.client()];
  const queue = dibs.queue<string>("work");
  const waiting = queue.claim({ wait: "20s" });
  await tx.query("BEGIN");
  await queue.add("1", { tx });
  await tx.query("ROLLBACK");
  await tx.query("BEGIN");
  await queue.add("2", { tx });
  // Stay open for longer than one poll.
  await tx.query("SELECT pg_sleep(0.1)");
  await tx.query("COMMIT");
  expect((await waiting).map(({ data }) => data)).toEqual(["2"]);
});
