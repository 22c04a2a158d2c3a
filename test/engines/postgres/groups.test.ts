import type { Client } from "pg";
import { expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { ground, untilOneWaits } from "./kit.ts";

/** A store opened twice, and another client of the database. */
async function bare(): Promise<{ engine: Engine; other: Engine; client: Client; schema: string }> {
  const { engine, client, schema } = await ground();
  return { engine: await engine(), other: await engine(), client: await client(), schema };
}

const grouped = (data: string) => ({ queue: "work", data, groupKey: "g" });

async function claimAll(engine: Engine): Promise<{ id: string; fence: number; data: unknown }[]> {
  const [claimed] = await engine.execute([
    { verb: "claim", queues: ["work"], max: 10, worker: "w", lease: 60_000 },
  ]);
  return (claimed as { ok: { tasks: { id: string; fence: number; data: unknown }[] } }).ok.tasks;
}

function done({ id, fence }: { id: string; fence: number }) {
  return { verb: "settle", id, fence, settlement: { kind: "done", result: null } } as const;
}

test("the end of a group's last task does not wait for transactions that add to the group, and their tasks are promoted", async () => {
  const { engine, client, schema } = await bare();
  await engine.execute([{ verb: "add", tasks: [grouped('"first"')] }]);
  const [first] = await claimAll(engine);
  // Plays an add of another process that has found a head in the group and is not committed.
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM ${schema}.lane FOR SHARE`);
  await client.query(
    `WITH added AS (INSERT INTO ${schema}.task (seq, created_at, queue, priority, group_key, data)
       SELECT nextval('${schema}.seq'), 1, id, 0, 'g', '"second"' FROM ${schema}.queue RETURNING seq, queue)
     INSERT INTO ${schema}.waiting (queue, group_key, pos, task, rank) SELECT queue, 'g', seq, seq, 0 FROM added`,
  );
  const told = Promise.withResolvers<void>();
  engine.onHint((hint) => hint.ready && told.resolve());
  expect(await engine.execute([done(first!)])).toEqual([{ ok: { state: "done" } }]);
  expect(await claimAll(engine)).toEqual([]);
  await client.query("COMMIT");
  await told.promise;
  const [second] = await claimAll(engine);
  expect(second).toMatchObject({ data: '"second"' });
  await engine.execute([done(second!)]);
  const { rows } = await client.query(
    `SELECT (SELECT count(*)::int4 FROM ${schema}.lane) AS lanes, (SELECT count(*)::int4 FROM ${schema}.inbox) AS notes`,
  );
  expect(rows).toEqual([{ lanes: 0, notes: 0 }]);
});

test("a task added in the batch that ends its group's last task becomes the head", async () => {
  const { engine } = await bare();
  await engine.execute([{ verb: "add", tasks: [grouped('"first"')] }]);
  const [first] = await claimAll(engine);
  const outcomes = await engine.execute([
    done(first!),
    { verb: "add", tasks: [grouped('"second"'), grouped('"third"')] },
    { verb: "claim", queues: ["work"], max: 10, worker: "w", lease: 60_000 },
  ]);
  expect(outcomes).toMatchObject([
    { ok: { state: "done" } },
    { ok: [{ state: "ready" }, { state: "waiting" }] },
    { ok: { tasks: [{ data: '"second"' }] } },
  ]);
});

test("a task waits behind an earlier add of a caller's transaction to its group, even while another process processes that add", async () => {
  const { engine, other, client, schema } = await bare();
  await engine.execute([{ verb: "declare", queue: "work", policy: {} }]);
  await client.query("BEGIN");
  await other.executeInTransaction!(client, { verb: "add", tasks: [grouped('"first"')] });
  await client.query("COMMIT");
  // Plays another process that is processing the inbox entry.
  await client.query("BEGIN");
  expect((await client.query(`SELECT n FROM ${schema}.inbox FOR UPDATE`)).rowCount).toBe(1);
  const adding = engine.execute([{ verb: "add", tasks: [grouped('"second"')] }]);
  await untilOneWaits(client, schema);
  await client.query("ROLLBACK");
  expect(await adding).toMatchObject([{ ok: [{ state: "waiting" }] }]);
  expect(await claimAll(engine)).toMatchObject([{ data: '"first"' }]);
});

test("successes with keys, steps and groups settled in bulk keep their keys, lose their steps and continue their groups", async () => {
  const { open, client, schema } = await ground();
  const dibs = await open();
  const queue = dibs.queue<{ group: number; n: number }>("work");
  const [groups, each] = [20, 10];
  await queue.addMany(
    Array.from({ length: groups * each }, (_, i) => ({
      data: { group: i % groups, n: Math.floor(i / groups) },
      groupKey: `g${i % groups}`,
      ...(i % 3 === 0 && { idempotencyKey: `key-${i}` }),
    })),
  );
  const next = Array.from({ length: groups }, () => 0);
  const all = Promise.withResolvers<void>();
  let seen = 0;
  const out: string[] = [];
  const stores = [dibs, await open(), await open()];
  const workers = stores.map((store) =>
    store.queue<{ group: number; n: number }>("work").work(
      async (task) => {
        const { group, n } = task.data;
        if (next[group] !== n) out.push(`${group}: ${n} instead of ${next[group]}`);
        next[group] = n + 1;
        if (n % 4 === 0) await task.step("once", () => n);
        if (++seen === groups * each) all.resolve();
      },
      { concurrency: 10, prefetch: 10 },
    ),
  );
  await all.promise;
  await Promise.all(workers.map((worker) => worker.stop()));
  expect(out).toEqual([]);
  expect((await queue.stats()).depth).toMatchObject({
    done: groups * each,
    waiting: 0,
    ready: 0,
    claimed: 0,
  });
  expect((await queue.add({ group: 0, n: 0 }, { idempotencyKey: "key-0" })).existing).toBe(true);
  const { rows } = await (
    await client()
  ).query(
    `SELECT (SELECT count(*)::int4 FROM ${schema}.step) AS steps,
       (SELECT count(*)::int4 FROM ${schema}.idempotency WHERE forget_at IS NOT NULL AND state = 'done') AS keys`,
  );
  expect(rows).toEqual([{ steps: 0, keys: 67 }]);
});
