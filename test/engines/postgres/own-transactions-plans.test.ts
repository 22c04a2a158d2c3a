import type { Client } from "pg";
import { expect, test } from "vitest";
import type { Op, TransactionVerb } from "../../../src/engine/engine.ts";
import { PostgresStore } from "../../../src/engines/postgres/batch/store.ts";
import { newTask, QUEUE } from "../sqlite/kit.ts";
import { asker, fill } from "./fill.ts";
import { connect, ground } from "./kit.ts";
import { costsOf, type Node, readIndexes, readTables } from "./plan.ts";

/**
 * Statements within a caller's transaction are planned with the settings of the caller's connection, not with those of
 * dibs. They must use the indexes there too.
 */

/** The plans for these values and for any values: a library that prepares the statement gets either. */
async function plansOf(client: Client, sql: string, params: unknown[]): Promise<Node[]> {
  const planOf = async (question: string, values?: unknown[]): Promise<Node> =>
    (await client.query<{ "QUERY PLAN": [{ Plan: Node }] }>(question, values)).rows[0]!["QUERY PLAN"][0].Plan;
  const custom = await planOf(`EXPLAIN (FORMAT JSON) ${sql}`, params);
  await client.query(`PREPARE prepared AS ${sql}`);
  await client.query(`SET LOCAL plan_cache_mode = force_generic_plan`);
  const nulls = params.length === 0 ? "" : `(${params.map(() => "NULL").join(", ")})`;
  const generic = await planOf(`EXPLAIN (FORMAT JSON) EXECUTE prepared${nulls}`);
  await client.query(`DEALLOCATE prepared`);
  await client.query(`SET LOCAL plan_cache_mode = DEFAULT`);
  return [custom, generic];
}

/** A bitmap scan uses an index too, so it counts as an index scan. */
function plain(node: Node): Node {
  const [below] = node.Plans ?? [];
  if (node["Node Type"] !== "Bitmap Heap Scan" || below!["Node Type"] !== "Bitmap Index Scan")
    return { ...node, Plans: (node.Plans ?? []).map(plain) };
  return { ...node, ...below, "Node Type": "Index Scan" };
}

async function setUp(isAnalyzed: boolean) {
  const place = await ground();
  const engine = await place.engine();
  const link = await connect(place);
  const tables = await readTables(link);
  // Statistics are only what a test asks for.
  for (const table of tables) await link.exec(`ALTER TABLE dibs.${table} SET (autovacuum_enabled = false)`);
  const store = new PostgresStore(link, { session: true, durability: "full" });
  await fill(store);
  // Fill the tables that fill() leaves empty.
  await link.exec(`
    INSERT INTO dibs.step (task, kind, name) SELECT n, 'step', 'a' FROM generate_series(1000000, 1020000) AS n;
    INSERT INTO dibs.run_part (task, run, created_at, stage, part)
    SELECT n, n, 0, 'a', '' FROM generate_series(1000000, 1020000) AS n;
    INSERT INTO dibs.child (task, parent, n, created_at, name, queue)
    SELECT n, 1, n, 0, 'a', 'work' FROM generate_series(1000000, 1020000) AS n;
    INSERT INTO dibs.inbox (queue, group_key) SELECT 1, 'g' || n FROM generate_series(1, 20000) AS n`);
  if (isAnalyzed) await link.exec(`ANALYZE ${tables.map((table) => `dibs.${table}`).join(", ")}`);
  return { place, engine, run: asker(store), indexes: await readIndexes(link) };
}

test.each([
  ["was never analyzed", false],
  ["was analyzed", true],
])(
  "no statement within a caller's transaction walks over a table, where the store is full and %s",
  async (_, isAnalyzed) => {
    const { place, engine, run, indexes } = await setUp(isAnalyzed);
    await run<"subscribe">({ verb: "subscribe", pattern: "order.*", group: "a", queue: "copies" });
    const claim = async (queue: string) =>
      (await run<"claim">({ verb: "claim", queues: [queue], max: 1, worker: "w", lease: 60_000 }))[0]!
        .tasks[0]!;
    const [one, two, judged] = [await claim(QUEUE), await claim(QUEUE), await claim("judged")];
    await run<"step">({ verb: "step", id: one.id, fence: one.fence, name: "a", value: "1" });
    await run<"cancel">({ verb: "cancel", id: two.id });
    const done = ({ id, fence }: typeof one, spent?: number): Op<"settle"> => ({
      verb: "settle",
      ...{ id, fence },
      settlement: { kind: "done", result: "r" },
      ...(spent !== undefined && { spent }),
    });
    const client = await place.client();
    const plans = new Map<string, Node[]>();
    const tx = {
      query: async (sql: string, params: unknown[]) => {
        plans.set(sql, await plansOf(client, sql, params));
        return client.query(sql, params);
      },
    };
    const ops: Op<TransactionVerb>[] = [
      { verb: "add", tasks: [newTask({ groupKey: "g", idempotencyKey: "new" }), newTask({ delay: 1_000 })] },
      { verb: "add", tasks: [newTask({ idempotencyKey: "f1" })] },
      { verb: "publish", message: { topic: "order.placed", data: "x", idempotencyKey: "m" } },
      done(one, 3),
      done(two),
      done(judged),
    ];
    for (const level of ["READ COMMITTED", "REPEATABLE READ"]) {
      await client.query(`BEGIN ISOLATION LEVEL ${level}`);
      for (const op of ops) expect(await engine.executeInTransaction!(tx, op)).toHaveProperty("ok");
      await client.query("ROLLBACK");
    }
    await client.query(`BEGIN ISOLATION LEVEL REPEATABLE READ`);
    await engine.executeInTransaction!(tx, done(one));
    await expect(engine.executeInTransaction!(tx, done(one))).rejects.toMatchObject({ code: "CLAIM_LOST" });
    await client.query("ROLLBACK");
    expect(plans.size).toBeGreaterThan(17);
    const costs = [...plans].flatMap(([sql, each]) =>
      each.flatMap((plan) => costsOf(plain(plan), indexes).map(({ cost }) => `${cost}\n${sql.trim()}`)),
    );
    expect(costs).toEqual([]);
  },
);
