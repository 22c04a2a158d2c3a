import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { isDibsError } from "../../../src/core/errors.ts";
import { raiseFloors } from "../../../src/engines/postgres/floors.ts";
import { connect, ground, untilOneWaits } from "./kit.ts";

const QUICK = { backoff: { type: "fixed", delay: 0, jitter: 0 }, elsewhere: 0, maxAttempts: 100 } as const;

/** The number of a lock. */
const PAUSE = 4_711;

test(
  "a signal that comes while its task is claimed or about to be parked is not lost",
  { timeout: 60_000 },
  async () => {
    const { open } = await ground();
    const [here, there] = [await open(), await open()];
    const queue = here.queue<number, number>("work", QUICK);
    const tasks = await queue.addMany(Array.from({ length: 150 }, (_, n) => ({ data: n })));
    const worker = queue.work(async (task) => (await task.waitFor<number>("go")) + 1, { concurrency: 30 });
    const kept = await Promise.all(
      tasks.map(async ({ id }, n) => {
        await sleep(Math.random() * 300);
        return there.task(id).signal("go", n);
      }),
    );
    expect(kept.every(Boolean)).toBe(true);
    const results = await Promise.all(tasks.map((task) => task.result({ timeout: "30s" })));
    expect(results).toEqual(tasks.map((_, n) => n + 1));
    await worker.stop();
    const { depth } = await queue.stats();
    expect(depth).toMatchObject({ done: 150, parked: 0, claimed: 0, ready: 0, scheduled: 0 });
  },
);

test("a task is claimed once, also where it gets a signal while a claim has found it and not yet taken it", async () => {
  const place = await ground();
  const [here, there] = [await place.open(), await place.open()];
  const queue = here.queue<number>("work");
  await queue.add(0);
  const [before] = await queue.claim();
  await before!.ack();
  const [first, second] = await queue.addMany([{ data: 1 }, { data: 2 }]);
  await raiseFloors(await connect(place), ["work"]);
  // A claim reads the floors before it takes what it sees: there it can be made to wait.
  const client = await place.client();
  await client.query(`
    ALTER TABLE ${place.schema}.floor RENAME TO real_floor;
    CREATE FUNCTION ${place.schema}.pause() RETURNS bool LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_advisory_xact_lock_shared(${PAUSE}); RETURN true; END';
    CREATE VIEW ${place.schema}.floor AS SELECT * FROM ${place.schema}.real_floor WHERE ${place.schema}.pause()`);
  await client.query(`SELECT pg_advisory_lock(${PAUSE})`);
  const claiming = queue.claim({ max: 10 });
  await untilOneWaits(client, place.schema);
  expect(await there.task(first!.id).signal("go")).toBe(true);
  await client.query(`SELECT pg_advisory_unlock(${PAUSE})`);
  const claims = [...(await claiming), ...(await queue.claim({ max: 10 }))];
  expect(claims.map(({ id }) => id)).toEqual([second!.id, first!.id]);
  await Promise.all(claims.map((claim) => claim.ack()));
  expect((await queue.stats()).depth).toMatchObject({ ready: 0, claimed: 0, done: 3 });
});

test(
  "verdicts, cancels and groups of several processes: nothing is stuck or shown before its time",
  { timeout: 60_000 },
  async () => {
    const { open } = await ground();
    const [here, there] = [await open(), await open()];
    const stops: (() => Promise<void>)[] = [];
    const accepted = new Set<string>();
    for (const dibs of [here, there]) {
      const queue = dibs.queue<number, { n: number; attempt: number }>("work", QUICK);
      const verifier = queue.verify(
        async (task) => {
          await sleep(Math.random() * 3);
          if (Math.random() < 0.1) throw new Error("the verifier broke");
          if (Math.random() < 0.3) return { refuse: "again" };
          accepted.add(task.id);
          return true;
        },
        { concurrency: 10 },
      );
      await verifier.ready;
      const worker = queue.work(
        async (task) => {
          await sleep(Math.random() * 3);
          if (task.attempt > 1 && !task.feedback) throw new Error("nobody said why");
          await task.add(dibs.queue("next"), task.data);
          return { n: task.data, attempt: task.attempt };
        },
        { concurrency: 10 },
      );
      stops.push(
        () => verifier.stop(),
        () => worker.stop(),
      );
    }
    const tasks = await here
      .queue<number, { n: number }>("work")
      .addMany(
        Array.from({ length: 120 }, (_, n) => ({ data: n, ...(n % 3 === 0 && { groupKey: `g${n % 4}` }) })),
      );
    const cancelling = tasks.filter((_, n) => n % 10 === 7).map((task) => there.task(task.id).cancel());
    const ends = await Promise.all(
      tasks.map(async (task) => {
        try {
          return (await task.result({ timeout: "40s" })).n;
        } catch (error) {
          if (isDibsError(error) && error.code === "TASK_CANCELLED") return "cancelled";
          throw error;
        }
      }),
    );
    await Promise.all(cancelling);
    await Promise.all(stops.map((stop) => stop()));
    const done = ends.filter((end) => end !== "cancelled");
    for (const [n, end] of ends.entries())
      if (end !== "cancelled") expect([end, accepted.has(tasks[n]!.id)]).toEqual([n, true]);
    expect((await here.queue("work").stats()).depth).toMatchObject({
      ...{ done: done.length, cancelled: tasks.length - done.length },
      ...{ ready: 0, waiting: 0, scheduled: 0, claimed: 0, verifying: 0, dead: 0 },
    });
    expect((await here.queue("next").stats()).depth.ready).toBe(done.length);
  },
);
