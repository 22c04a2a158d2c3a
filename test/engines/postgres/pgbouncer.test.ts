// Through PgBouncer in transaction mode: nothing may be kept on a connection from one transaction to the next.

import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import type { WorkerInfo } from "../../../src/core/task/task.ts";
import { conformance } from "../../conformance/suite/index.ts";
import type { Op, VerbName, Verbs } from "../../../src/engine/engine.ts";
import { Connection } from "../../../src/engines/postgres/connection/connection.ts";
import { PostgresStore } from "../../../src/engines/postgres/batch/store.ts";
import { open } from "../../../src/index.ts";
import { dropAfterAll, postgresThrough } from "../../conformance/postgres-harness.ts";
import { POOL, startPgBouncer, whyNoPgBouncer } from "../../postgres/pgbouncer.ts";
import { PostgresServer, QUICK } from "../../postgres/server.ts";
import { freshDatabase } from "../../postgres/shared.ts";

const why = await whyNoPgBouncer();

async function setUp() {
  const url = await freshDatabase(onTestFinished);
  const pooled = await startPgBouncer(url, onTestFinished);
  const openPooled = async () => {
    const dibs = await open(pooled, { listen: false, poll: 100 });
    onTestFinished(() => dibs.close());
    return dibs;
  };
  return { url, pooled, openPooled };
}

describe.skipIf(why)(`through PgBouncer${why ? `, which is not here: ${why}` : ""}`, () => {
  test("many processes share few connections, and every task is done once", async () => {
    const { url, openPooled } = await setUp();
    const producer = await openPooled();
    const openers = await Promise.all(Array.from({ length: 4 }, openPooled));
    const runs = new Map<number, number>();
    const orders = new Map<string, number[]>();
    const workers = openers.map((dibs) =>
      dibs.queue<{ n: number; group: string }>("work", { backoff: { type: "fixed", delay: 0 } }).work(
        (task) => {
          const { n, group } = task.data;
          if (n % 10 === 0 && task.attempt === 1) throw new Error("at first it fails");
          runs.set(n, (runs.get(n) ?? 0) + 1);
          if (n % 2 === 0) orders.set(group, [...(orders.get(group) ?? []), n]);
        },
        { concurrency: 5 },
      ),
    );
    const queue = producer.queue<{ n: number; group: string }>("work");
    const numbers = Array.from({ length: 400 }, (_, n) => n);
    const added = await queue.addMany(
      numbers.map((n) => ({
        data: { n, group: `g${n % 8}` },
        ...(n % 2 === 0 && { groupKey: `g${n % 8}` }),
      })),
    );
    await Promise.all(added.map((task) => task.result({ timeout: "50s" })));
    expect(numbers.filter((n) => runs.get(n) !== 1)).toEqual([]);
    for (const order of orders.values()) expect(order).toEqual(order.toSorted((a, b) => a - b));
    const admin = new Client({ connectionString: url });
    await admin.connect();
    const { rows } = await admin.query<{ count: number }>(
      `SELECT count(*)::int4 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    );
    await admin.end();
    expect(rows[0]!.count).toBeLessThanOrEqual(POOL);
    await Promise.all(workers.map((worker) => worker.stop()));
  });

  test("a worker's heartbeats pass PgBouncer, and its claim lasts longer than its lease", async () => {
    const { openPooled } = await setUp();
    const [here, there] = [await openPooled(), await openPooled()];
    const policy = { lease: "2s", elsewhere: 0 } as const;
    const worker = here.queue<string>("work", policy).work(async (task) => {
      const until = performance.now() + 4_500;
      while (performance.now() < until) await task.progress(0.5);
      return task.attempt;
    });
    const task = await there.queue<string>("work", policy).add("long");
    expect(await task.result({ timeout: "30s" })).toBe(1);
    await worker.stop();
  });

  test("add and ack can be part of the caller's transaction through PgBouncer", async () => {
    const { pooled, openPooled } = await setUp();
    const dibs = await openPooled();
    const queue = dibs.queue<number>("work");
    const client = new Client({ connectionString: pooled });
    await client.connect();
    onTestFinished(() => client.end());
    for (const [n, word] of [
      [1, "ROLLBACK"],
      [2, "COMMIT"],
    ] as const) {
      await client.query("BEGIN");
      await queue.add(n, { tx: client });
      await client.query(word);
    }
    const [claim, ...others] = await queue.claim({ max: 10, wait: "10s" });
    expect([claim?.data, others]).toEqual([2, []]);
    await client.query("BEGIN");
    await claim!.ack("done", { tx: client });
    await client.query("COMMIT");
    expect(await dibs.task(claim!.id).result({ timeout: "10s" })).toBe("done");
  });

  test("a server behind PgBouncer is used again after a crash, and each task is done once", async () => {
    const server = await PostgresServer.start({ settings: QUICK });
    onTestFinished(() => server.remove());
    const dibs = await open(await startPgBouncer(server.url, onTestFinished), { listen: false, poll: 100 });
    onTestFinished(() => dibs.close());
    const queue = dibs.queue<number>("work", { backoff: { type: "fixed", delay: 0 } });
    const worker = queue.work(() => {}, { concurrency: 5 });
    await worker.ready;
    const ids = new Map<number, string>();
    const over = new AbortController();
    const adding = (async () => {
      for (let n = 0; !over.signal.aborted;) {
        try {
          ids.set(n, (await queue.add(n, { idempotencyKey: `${n}` })).id);
          n++;
        } catch (error) {
          expect((error as { code: string }).code).toMatch(/^(UNAVAILABLE|OUTCOME_UNKNOWN)$/);
        }
      }
    })();
    for (let crash = 0; crash < 2; crash++) {
      const before = ids.size;
      while (ids.size < before + 20) await sleep(5);
      await server.stop("immediate");
      await server.restart();
    }
    const before = ids.size;
    while (ids.size < before + 20) await sleep(5);
    over.abort();
    await adding;
    for (const id of ids.values()) await dibs.task(id).result({ timeout: "20s" });
    await worker.stop();
    expect((await queue.stats()).depth).toMatchObject({ done: ids.size, ready: 0, claimed: 0, dead: 0 });
  });

  test("a call waits for a connection of the pooler while all are in use", async () => {
    const { pooled, openPooled } = await setUp();
    const dibs = await openPooled();
    const queue = dibs.queue<number>("work");
    await queue.add(1);
    const connect = async (database?: string): Promise<Client> => {
      const address = new URL(pooled);
      if (database !== undefined) address.pathname = `/${database}`;
      const client = new Client({ connectionString: address.href });
      await client.connect();
      onTestFinished(() => client.end());
      return client;
    };
    const takers = await Promise.all(Array.from({ length: POOL }, () => connect()));
    for (const taker of takers) await taker.query("BEGIN");
    const adding = queue.add(2);
    const pooler = await connect("pgbouncer");
    const database = new URL(pooled).pathname.slice(1);
    for (let isWaiting = false; !isWaiting; await sleep(5)) {
      const { rows } = await pooler.query<{ database: string; cl_waiting: string }>("SHOW POOLS");
      isWaiting = rows.some((row) => row.database === database && Number(row.cl_waiting) > 0);
    }
    expect(await Promise.race([adding, sleep(100, "waits")])).toBe("waits");
    await takers[0]!.query("ROLLBACK");
    await adding;
    expect((await queue.stats()).depth.ready).toBe(2);
    for (const taker of takers) await taker.query("ROLLBACK");
  });

  test("a server that crashed behind PgBouncer has another incarnation on the same connection", async () => {
    const server = await PostgresServer.start({ settings: QUICK });
    onTestFinished(() => server.remove());
    const pooled = await startPgBouncer(server.url, onTestFinished);
    await (await open(pooled, { listen: false })).close();
    const link = await Connection.open({
      url: pooled,
      schema: "dibs",
      prepare: false,
      settings: {},
      connectMs: 10_000,
    });
    onTestFinished(() => link.close());
    const store = new PostgresStore(link, { session: false, durability: "full" });
    const run = async <V extends VerbName>(op: Op<V>): Promise<Verbs[V]["out"]> => {
      const [outcome] = (await store.run([op])).outcomes;
      return (outcome as { ok: Verbs[V]["out"] }).ok;
    };
    const joining = { id: "w", queues: ["work"] } as unknown as WorkerInfo;
    const { session } = await run<"join">({ verb: "join", worker: joining, lease: 600_000 });
    const claim = async (): Promise<number> => {
      await run<"add">({ verb: "add", tasks: [{ queue: "work", data: "1" }] });
      const { tasks } = await run<"claim">({ verb: "claim", queues: ["work"], max: 1, worker: "w", session });
      return tasks[0]!.fence;
    };
    const first = await claim();
    expect(await claim()).toBe(first + 1);
    await server.stop("immediate");
    await server.restart();
    const next = await claim();
    // The server may not know the last fences that it gave out before the crash.
    expect(next).toBeGreaterThan(first + 1_000_000);
    expect(await claim()).toBe(next + 1);
    expect(link.ended).toBeUndefined();
  });

  test("a pooler that the options do not name is refused before a schema is created", async () => {
    const { url, pooled } = await setUp();
    await expect(open(pooled)).rejects.toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("listen: false"),
    });
    const admin = new Client({ connectionString: url });
    await admin.connect();
    onTestFinished(() => admin.end());
    expect((await admin.query(`SELECT 1 FROM pg_namespace WHERE nspname = 'dibs'`)).rowCount).toBe(0);
  });

  dropAfterAll();
  if (!why) {
    conformance("PostgreSQL through PgBouncer", postgresThrough(startPgBouncer), [
      "claims",
      "settle",
      "groups",
      "idempotency",
      "callOrder",
      "sessions",
      "concurrency",
      "changingLimits",
      "runs",
      "topics",
      "events",
      "transactions",
    ]);
  }
});
