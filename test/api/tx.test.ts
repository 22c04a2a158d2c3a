import { Client, Pool } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { open, type Task } from "../../src/index.ts";
import { freshSchema } from "../postgres/shared.ts";

async function setUp() {
  const { url, schema } = await freshSchema(onTestFinished);
  const dibs = await open(url, { schema });
  onTestFinished(() => dibs.close());
  const client = new Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(`CREATE TABLE ${schema}.orders (id int PRIMARY KEY)`);
  const pool = new Pool({ connectionString: url });
  onTestFinished(() => pool.end());
  return { dibs, client, pool, orders: `${schema}.orders` };
}

test("an order and its task are added together, or neither is", async () => {
  const { dibs, client, orders } = await setUp();
  const queue = dibs.queue<number>("orders");
  for (const [id, word] of [
    [1, "ROLLBACK"],
    [2, "COMMIT"],
  ] as const) {
    await client.query("BEGIN");
    await client.query(`INSERT INTO ${orders} VALUES ($1)`, [id]);
    await queue.add(id, { tx: client });
    await client.query(word);
  }
  const claims = await queue.claim({ max: 10 });
  expect(claims.map((claim) => claim.data)).toEqual([2]);
});

test("an order and a published message are committed together, or neither is", async () => {
  const { dibs, client, orders } = await setUp();
  const placed = dibs.topic<number>("order.placed");
  const groups = [placed.subscription("inventory"), placed.subscription("analytics")];
  for (const group of groups) await group.ready;
  for (const [id, word] of [
    [1, "ROLLBACK"],
    [2, "COMMIT"],
  ] as const) {
    await client.query("BEGIN");
    await client.query(`INSERT INTO ${orders} VALUES ($1)`, [id]);
    expect(await placed.publish(id, { tx: client })).toMatchObject({ reached: 2 });
    await client.query(word);
  }
  for (const group of groups) {
    expect((await group.claim({ max: 10 })).map((claim) => claim.data)).toEqual([2]);
  }
});

test("an order and a batch of tasks are added together, or neither is", async () => {
  const { dibs, client, orders } = await setUp();
  const queue = dibs.queue<number>("orders", { maxAttempts: 3 });
  for (const [id, word] of [
    [1, "ROLLBACK"],
    [2, "COMMIT"],
  ] as const) {
    await client.query("BEGIN");
    await client.query(`INSERT INTO ${orders} VALUES ($1)`, [id]);
    const added = await queue.addMany([{ data: id, priority: 1 }, { data: -id }], { tx: client });
    expect(added).toHaveLength(2);
    await client.query(word);
  }
  const claims = await queue.claim({ max: 10 });
  expect(claims.map((claim) => claim.data)).toEqual([2, -2]);
});

test("an order and the runs that it begins are committed together, or neither is", async () => {
  const { dibs, client, orders } = await setUp();
  const double = dibs.pipeline<number>("double").stage("twice", (task) => task.data * 2);
  double.work();
  const ids: string[] = [];
  for (const [id, word] of [
    [1, "ROLLBACK"],
    [2, "COMMIT"],
  ] as const) {
    await client.query("BEGIN");
    await client.query(`INSERT INTO ${orders} VALUES ($1)`, [id]);
    const run = await double.add(id, { tx: client });
    const more = await double.addMany([{ data: id * 10 }, { data: id * 100 }], { tx: client });
    await client.query(word);
    ids.push(...[run, ...more].map((each) => each.id));
  }
  const results = ids.map((id) => double.run(id).result({ timeout: "20s" }));
  const outcomes = await Promise.allSettled(results);
  expect(outcomes.slice(0, 3).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  expect(outcomes.slice(3)).toMatchObject([{ value: 4 }, { value: 40 }, { value: 400 }]);
});

test("tx for one task of a batch, or for a task that a handler adds, is refused, and the error names the right place", async () => {
  const { dibs, client } = await setUp();
  const queue = dibs.queue<number>("orders");
  const pipeline = dibs.pipeline<number>("double").stage("twice", (task) => task.data * 2);
  await client.query("BEGIN");
  const items = [{ data: 1, tx: client }] as never;
  const refusal = (message: RegExp) => expect.objectContaining({ code: "INVALID", message: match(message) });
  await expect(queue.addMany(items)).rejects.toEqual(refusal(/^Task 0 .*addMany\(items, \{ tx \}\)/));
  await expect(pipeline.addMany(items)).rejects.toEqual(refusal(/addMany\(items, \{ tx \}\)/));
  await queue.add(1);
  const [claim] = await queue.claim();
  for (const target of [queue, pipeline])
    await expect(claim!.add(target, 1, { tx: client } as never)).rejects.toEqual(
      refusal(/task\.ack\(result/),
    );
  await client.query("ROLLBACK");
});

function match(pattern: RegExp): unknown {
  return expect.stringMatching(pattern);
}

test("a tx that is not inside a transaction is refused, and nothing is left behind", async () => {
  const { dibs, client, pool } = await setUp();
  const queue = dibs.queue<number>("orders");
  await queue.add(1);
  const [claim] = await queue.claim();
  for (const tx of [client, pool]) {
    const refusal = { code: "INVALID", message: expect.stringContaining("not inside a transaction") };
    await expect(queue.add(2, { tx })).rejects.toMatchObject(refusal);
    await expect(queue.add(2, { tx, idempotencyKey: "key" })).rejects.toMatchObject(refusal);
    await expect(claim!.ack(undefined, { tx })).rejects.toMatchObject(refusal);
  }
  expect((await queue.stats()).depth).toMatchObject({ ready: 0, claimed: 1, done: 0 });
  await claim!.ack();
  expect((await queue.add(2, { idempotencyKey: "key" })).existing).toBe(false);
});

test("a handler that rolls its transaction back and returns has failed, and calls no done hook", async () => {
  const { dibs, client } = await setUp();
  const queue = dibs.queue<number, string>("orders", { backoff: { type: "fixed", delay: 0 } });
  const done: number[] = [];
  const handler = async (task: Task<number, string>): Promise<string> => {
    await client.query("BEGIN");
    await task.ack("stored", { tx: client });
    await client.query(task.attempt === 1 ? "ROLLBACK" : "COMMIT");
    return "not heard";
  };
  const worker = queue.work(handler, { on: { done: ({ attempt }) => void done.push(attempt) } });
  const task = await queue.add(1);
  expect(await task.result({ timeout: "20s" })).toBe("stored");
  await worker.stop();
  expect(await task.history()).toMatchObject([
    { outcome: "failed", error: { message: expect.stringContaining("was not committed") } },
    { outcome: "done" },
  ]);
  expect(done).toEqual([2]);
});

test("a handler that returns before its transaction is committed is done when it is", async () => {
  const { dibs, client } = await setUp();
  const queue = dibs.queue<number, string>("orders");
  const returned = Promise.withResolvers<void>();
  const worker = queue.work(async (task) => {
    await client.query("BEGIN");
    await task.ack("stored", { tx: client });
    returned.resolve();
    return "not heard";
  });
  const task = await queue.add(1);
  await returned.promise;
  await client.query("COMMIT");
  expect(await task.result({ timeout: "20s" })).toBe("stored");
  await worker.stop();
  expect(await task.history()).toMatchObject([{ outcome: "done" }]);
});

test("a transaction of another library takes two lines of code", async () => {
  const { dibs, client } = await setUp();
  const queue = dibs.queue<number>("orders");
  await client.query("BEGIN");
  const tx = {
    query: async (sql: string, params: unknown[]) => (await client.query(sql, params)).rows as object[],
  };
  await queue.add(1, { tx });
  await client.query("COMMIT");
  expect((await queue.stats()).depth.ready).toBe(1);
});

test("a handler's effect and its ack commit together, and are retried after a rollback", async () => {
  const { dibs, client, orders } = await setUp();
  const queue = dibs.queue<number, string>("orders", { backoff: { type: "fixed", delay: 0 } });
  const worker = queue.work(async (task) => {
    await client.query("BEGIN");
    await client.query(`INSERT INTO ${orders} VALUES ($1)`, [task.attempt]);
    await task.ack("stored", { tx: client });
    if (task.attempt === 1) {
      await client.query("ROLLBACK");
      throw new Error("something else went wrong");
    }
    await client.query("COMMIT");
    return "not heard";
  });
  const task = await queue.add(1);
  expect(await task.result({ timeout: "10s" })).toBe("stored");
  await worker.stop();
  expect(await task.history()).toMatchObject([{ outcome: "failed" }, { outcome: "done" }]);
  const { rows } = await client.query(`SELECT id FROM ${orders}`);
  expect(rows).toEqual([{ id: 2 }]);
});
