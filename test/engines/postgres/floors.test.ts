import { expect, onTestFinished, test, vi } from "vitest";
import { Retry } from "../../../src/index.ts";
import type { WorkerInfo } from "../../../src/core/task/task.ts";
import type { Op } from "../../../src/engine/engine.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import {
  BELOW_FLOORS,
  checkFloors,
  Raising,
  raiseFloors,
} from "../../../src/engines/postgres/line/floors.ts";
import type { Connection } from "../../../src/engines/postgres/connection/connection.ts";
import { catalogueLock } from "../../../src/engines/postgres/connection/locks.ts";
import { PostgresStore } from "../../../src/engines/postgres/batch/store.ts";
import { connect, type Ground, ground } from "./kit.ts";

const QUEUE = "work";

/** How long raising waits for open batches. The product gives up after 50 ms and tries again; a busy machine needs more. */
const PATIENCE_MS = 20_000;

async function setUp() {
  const place = await ground();
  const dibs = await place.open();
  const queue = dibs.queue<number>(QUEUE);
  const link = await connect(place);
  return { place, dibs, queue, link, raise: () => raiseFloors(link, [QUEUE], PATIENCE_MS) };
}

type Queue = Awaited<ReturnType<typeof setUp>>["queue"];

/** Claims everything in the line. */
async function drain(queue: Queue): Promise<number[]> {
  const all: number[] = [];
  for (;;) {
    const claims = await queue.claim({ max: 1_000 });
    if (claims.length === 0) return all;
    all.push(...claims.map((claim) => claim.data));
    await Promise.all(claims.map((claim) => claim.ack()));
  }
}

async function floorsOf(link: Connection): Promise<{ line: number; rank: number; pos: number }[]> {
  return link.all(`
    SELECT DISTINCT ON (line) line, rank, pos FROM dibs.floor WHERE line > 0 ORDER BY line, n DESC, rank, pos`);
}

/** The pages that are read during `work`, of the given tables. */
async function pagesDuring(
  { client, schema }: Ground,
  work: () => Promise<unknown>,
  tables = "ready",
): Promise<number> {
  const admin = await client();
  const read = async (): Promise<number> => {
    const { rows } = await admin.query<{ pages: string }>(
      `SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))::text AS pages
       FROM pg_statio_all_tables WHERE schemaname = $1 AND relname LIKE $2`,
      [schema, tables],
    );
    return Number(rows[0]!.pages);
  };
  const before = await read();
  await work();
  return (await read()) - before;
}

test("a scan of a line begins above the claimed tasks whose index entries an open transaction keeps", async () => {
  const { place, dibs, queue, link, raise } = await setUp();
  const holder = await place.client();
  await holder.query(`BEGIN ISOLATION LEVEL REPEATABLE READ`);
  await holder.query(`SELECT pg_current_xact_id()`);
  await queue.addMany(Array.from({ length: 10_000 }, (_, data) => ({ data })));
  expect(await drain(queue)).toHaveLength(10_000);
  // Close the store, which could raise the floor again.
  await dibs.close();

  // A connection that has not used the store before, as after a deployment.
  const look = async (): Promise<number> => {
    const link = await connect(place);
    const store = new PostgresStore(link, { session: true, durability: "full" });
    await store.run([{ verb: "add", tasks: [{ queue: QUEUE, data: "1" }] }]);
    return pagesDuring(place, async () => {
      await store.run([{ verb: "claim", queues: [QUEUE], max: 1, worker: "w" }]);
      await store.run([{ verb: "stats", queue: QUEUE }]);
      await link.all(`SELECT pg_stat_force_next_flush()`);
    });
  };
  await link.exec(`DELETE FROM dibs.floor`);
  const before = await look();
  await raise();
  const after = await look();
  expect(before).toBeGreaterThan(100);
  expect(after).toBeLessThan(before / 4);
});

type Store = Pick<PostgresStore, "run">;

/** Long enough that no lease expires on a slow machine: claims would have to process that too. */
const LEASE = 3_600_000;

/**
 * Autovacuum would read the tables at any time, and create visibility maps, whose pages every read would then read too.
 */
async function stopVacuum({ client, schema }: Ground): Promise<void> {
  const admin = await client();
  const { rows } = await admin.query<{ name: string }>(
    `SELECT tablename AS name FROM pg_tables WHERE schemaname = $1`,
    [schema],
  );
  for (const { name } of rows)
    await admin.query(`ALTER TABLE ${schema}.${name} SET (autovacuum_enabled = false)`);
}

/** Work that writes one row again and again, or leaves dead rows where every batch reads. */
const REWRITING: [what: string, begin: (store: Store, place: Ground) => Promise<() => Promise<unknown>>][] = [
  [
    "many signs of life",
    async (store) => {
      const sessions: number[] = [];
      for (let i = 0; i < 5; i++) sessions.push(await join(store));
      const beat: Op = { verb: "heartbeat", sessions };
      return () => store.run([beat, beat]);
    },
  ],
  [
    "many events",
    async (store) => {
      await store.run([{ verb: "listen", listener: "board", after: null, limit: 1 }]);
      return () => store.run([addOne]);
    },
  ],
  [
    "much was counted of a limit",
    async (store) => {
      const rateLimit = [{ max: 1_000_000, per: 60_000, unit: null, pace: false }];
      await store.run([{ verb: "declare", queue: QUEUE, policy: { rateLimit } }]);
      return () => store.run([addOne, claimByHand]);
    },
  ],
  [
    "many notes of others' transactions",
    async (store, place) => {
      const engine = await place.engine();
      const client = await place.client();
      return async () => {
        await client.query("BEGIN");
        await engine.executeInTransaction!(client, addOne);
        await client.query("COMMIT");
        await store.run([claimByHand]);
      };
    },
  ],
];

const addOne: Op<"add"> = { verb: "add", tasks: [{ queue: QUEUE, data: "1" }] };
const claimByHand: Op<"claim"> = { verb: "claim", queues: [QUEUE], max: 1, worker: "w", lease: LEASE };

async function join(store: Store): Promise<number> {
  const worker = { id: "w", queues: [QUEUE] } as WorkerInfo;
  const { outcomes } = await store.run([{ verb: "join", worker, lease: LEASE }]);
  return (outcomes[0] as { ok: { session: number } }).ok.session;
}

test.each(REWRITING)(
  "a claim costs as much after %s, while a transaction keeps every version",
  async (_, begin) => {
    const place = await ground();
    await (await place.open()).close();
    await stopVacuum(place);
    const link = await connect(place);
    const store = new PostgresStore(link, { session: true, durability: "full" });
    await store.run([addOne]);
    const session = await join(store);
    const rewrite = await begin(store, place);
    const holder = await place.client();
    await holder.query(`BEGIN ISOLATION LEVEL REPEATABLE READ`);
    await holder.query(`SELECT pg_current_xact_id()`);
    const claim = (): Promise<unknown> =>
      store.run([{ verb: "claim", queues: [QUEUE], max: 1, worker: "w", session }]);
    const tellCounts = (): Promise<unknown> => link.all(`SELECT pg_stat_force_next_flush()`);
    const costAfter = async (times: number): Promise<number> => {
      for (let i = 0; i < times; i++) await rewrite();
      await store.run([
        ...Array.from({ length: 11 }, () => addOne),
        { verb: "heartbeat", sessions: [session] },
      ]);
      await raiseFloors(link, [QUEUE], PATIENCE_MS);
      await claim();
      await tellCounts();
      const tenClaims = async (): Promise<void> => {
        for (let i = 0; i < 10; i++) await claim();
        await tellCounts();
      };
      return (await pagesDuring(place, tenClaims, "%")) / 10;
    };
    const first = await costAfter(200);
    const later = await costAfter(1_800);
    expect(later).toBeLessThan(first * 1.2 + 5);
  },
);

test("a task that enters the line below a floor lowers it", async () => {
  const { queue, link, raise } = await setUp();
  await queue.addMany(Array.from({ length: 5 }, (_, data) => ({ data })));
  const [first, second] = await queue.claim({ max: 2 });
  const rest = await queue.claim({ max: 3 });
  await raise();
  const [high] = await floorsOf(link);
  expect(high).toMatchObject({ rank: 0, pos: 6 });
  await second!.release();
  expect(await floorsOf(link)).toMatchObject([{ rank: 0, pos: 2 }]);
  await first!.release();
  await queue.add(9, { priority: 3 });
  expect(await floorsOf(link)).toMatchObject([{ rank: -3 }]);
  await Promise.all(rest.map((claim) => claim.ack()));
  expect(await drain(queue)).toEqual([9, 0, 1]);
});

test("the floor stays below new tasks, even if only tasks of a low priority are left", async () => {
  const { queue, link, raise } = await setUp();
  await queue.add(1, { priority: -5 });
  await raise();
  expect(await floorsOf(link)).toMatchObject([{ rank: 0, pos: 2 }]);
  await queue.add(2);
  await queue.add(3, { priority: -5 });
  expect(await drain(queue)).toEqual([2, 1, 3]);
});

test("lines ordered by time have floors, and rows below them are found", async () => {
  const { queue, link, raise } = await setUp();
  await queue.add(1, { delay: "1h", ttl: "2h" });
  await raise();
  await queue.add(2, { delay: 5, ttl: "1h" });
  expect(await link.all(BELOW_FLOORS)).toEqual([]);
  await expect.poll(() => drain(queue)).toEqual([2]);
});

test("sessions have a floor, and one whose lease ends sooner is found below it", async () => {
  const { place, queue, link, raise } = await setUp();
  await raise();
  await queue.add(1);
  const engine = await place.engine();
  const worker = { id: "w", queues: [QUEUE] } as WorkerInfo;
  const sessionOf = async (lease: number): Promise<number> => {
    const [joined] = await engine.execute([{ verb: "join", worker, lease }]);
    return (joined as { ok: { session: number } }).ok.session;
  };
  const last = await sessionOf(60_000);
  await raise();
  const first = await sessionOf(300);
  expect(await link.all(BELOW_FLOORS)).toEqual([]);
  await engine.execute([{ verb: "heartbeat", sessions: [first, last] }]);
  await engine.execute([{ verb: "claim", queues: [QUEUE], max: 1, worker: "w", session: first, lease: 300 }]);
  await raise();
  expect(await link.all(BELOW_FLOORS)).toEqual([]);
  // Closing the engine ends its heartbeats.
  await engine.close();
  await expect.poll(() => drain(queue), { timeout: 10_000 }).toEqual([1]);
});

test("an inbox entry is found whenever its transaction commits", async () => {
  const { place, queue, link, raise } = await setUp();
  await queue.add(0);
  const [early, late, left] = [await place.client(), await place.client(), await place.client()];
  await early.query("BEGIN");
  await queue.add(1, { tx: early });
  await raise();
  await late.query("BEGIN; SAVEPOINT a");
  await queue.add(2, { tx: late });
  await late.query("RELEASE a");
  await left.query("BEGIN");
  await queue.add(3, { tx: left });
  await left.query("COMMIT");
  // Raise while one entry is not processed yet, and two transactions are open.
  await raise();
  await raise();
  expect(await drain(queue)).toEqual([0, 3]);
  await raise();
  await late.query("COMMIT");
  expect(await drain(queue)).toEqual([2]);
  await early.query("COMMIT");
  expect(await drain(queue)).toEqual([1]);
  expect(await link.all(`SELECT 1 FROM dibs.inbox`)).toEqual([]);
});

test("a store copied from another server ignores that server's transaction numbers", async () => {
  const { place, queue, link, raise } = await setUp();
  await queue.add(0);
  await raise();
  await link.exec(`UPDATE dibs.inbox_floor SET since = '9223372036854775807'`);
  const client = await place.client();
  const addWithin = async (data: number): Promise<void> => {
    await client.query("BEGIN");
    await queue.add(data, { tx: client });
    await client.query("COMMIT");
  };
  await addWithin(1);
  expect(await drain(queue)).toEqual([0, 1]);
  await raise();
  await addWithin(2);
  expect(await drain(queue)).toEqual([2]);
});

test("inbox entries below the inbox floor are found", async () => {
  const { place, queue, link, raise } = await setUp();
  const client = await place.client();
  await client.query("BEGIN");
  await queue.add(1, { tx: client });
  await queue.add(0);
  await raise();
  await link.exec(`UPDATE dibs.inbox_floor SET open = '{}'`);
  await client.query("COMMIT");
  expect(await drain(queue)).toEqual([0]);
  await checkFloors(link);
  expect(await drain(queue)).toEqual([1]);
});

test("while a batch hangs, floors are not raised, and other batches wait only briefly", async () => {
  const { place, queue, link, raise } = await setUp();
  await queue.add(1);
  const hanging = await place.client();
  await hanging.query("BEGIN");
  await hanging.query(`SELECT pg_advisory_xact_lock_shared(${catalogueLock(place.schema)})`);
  await expect(raiseFloors(link, [QUEUE])).rejects.toMatchObject({ code: "55P03" });
  expect(await drain(queue)).toEqual([1]);
  await hanging.query("COMMIT");
  await raise();
});

test("the engine raises floors by itself", async () => {
  const { queue, link } = await setUp();
  await queue.addMany(Array.from({ length: 10_000 }, (_, data) => ({ data })));
  await expect
    .poll(async () => {
      await drain(queue);
      await queue.addMany(Array.from({ length: 1_000 }, (_, data) => ({ data })));
      return (await floorsOf(link))[0]?.pos ?? 0;
    })
    .toBeGreaterThan(2_000);
});

test("tasks below a floor are found by the check of floors", async () => {
  const { queue, link } = await setUp();
  await queue.add(1);
  await link.exec(`INSERT INTO dibs.floor (line, n, rank, pos) SELECT id, 1, 0, 1000 FROM dibs.queue`);
  expect(await queue.claim({ max: 1 })).toEqual([]);
  await checkFloors(link);
  expect(await drain(queue)).toEqual([1]);
});

test("a batch that waited for a raise lowers the new floor, at any isolation level", async () => {
  const place = await ground();
  const url = new URL(place.url);
  url.searchParams.set("options", "-c default_transaction_isolation=serializable");
  const queue = (await place.open({}, url.href)).queue<number>(QUEUE);
  const link = await connect(place);
  await queue.add(7);
  const [claim] = await queue.claim({ max: 1 });
  await raiseFloors(link, [QUEUE], PATIENCE_MS);
  const raiser = await place.client();
  await raiser.query(`BEGIN; SELECT pg_advisory_xact_lock(${catalogueLock(place.schema)})`);
  const released = claim!.release();
  await expect
    .poll(async () => (await raiser.query(`SELECT 1 FROM pg_locks WHERE NOT granted`)).rowCount)
    .toBeGreaterThan(0);
  await raiser.query(`UPDATE ${place.schema}.floor SET n = n + 1; COMMIT`);
  await released;
  expect(await drain(queue)).toEqual([7]);
});

test("tasks that are added, failed or released while another process raises floors are found", async () => {
  const { place, link, raise } = await setUp();
  const others = await Promise.all(Array.from({ length: 3 }, () => place.open()));
  const COUNT = 400;
  const seen = new Set<number>();
  const workers = others.map((dibs) =>
    dibs.queue<number>(QUEUE).work(
      async (task) => {
        if (task.attempt === 1 && task.data % 7 === 0) throw new Error("once");
        if (task.attempt === 1 && task.data % 11 === 0) throw new Retry("later", { delay: 5 });
        seen.add(task.data);
      },
      { concurrency: 5, prefetch: 3 },
    ),
  );
  const adding = Promise.all(
    Array.from({ length: COUNT }, async (_, n) =>
      others[n % others.length]!.queue<number>(QUEUE, { backoff: { delay: 10 }, elsewhere: 20 }).add(n, {
        priority: n % 5 === 0 ? 2 : n % 3 === 0 ? -2 : 0,
        ...(n % 4 === 0 && { groupKey: `g${n % 16}` }),
        ...(n % 9 === 0 && { delay: n % 30 }),
      }),
    ),
  );
  const over = new AbortController();
  let raises = 0;
  const raising = (async () => {
    while (!over.signal.aborted) {
      await raise().then(
        () => raises++,
        () => {},
      );
      expect(await link.all(BELOW_FLOORS)).toEqual([]);
    }
  })();
  await adding;
  await expect.poll(() => seen.size, { timeout: 40_000 }).toBe(COUNT);
  over.abort();
  await raising;
  await Promise.all(workers.map((worker) => worker.stop()));
  expect(raises).toBeGreaterThan(10);
});

test("floors are raised at random, once in 2,000 claims, and one raise at a time", () => {
  const time = { now: 0 };
  const draws = [0.9, 0.0004, 0.9, 0.0001];
  const raising = new Raising({ now: () => time.now, random: () => draws.shift() ?? 0.5 });
  raising.note([{ queue: "a" }]);
  expect(raising.take()).toBeUndefined();
  raising.note([{ queue: "b" }]);
  expect(raising.take()).toEqual({ queues: ["b"], patience: 50 });
  raising.note([{ queue: "c" }, { queue: "d" }]);
  expect(raising.take()).toBeUndefined();
  raising.raised();
  expect(raising.take()).toBeUndefined();
  time.now += 200;
  expect(raising.take()?.queues).toEqual(["d"]);
});

test("floors are raised even without claims", () => {
  const time = { now: 0 };
  const raising = new Raising({ now: () => time.now });
  time.now += 59_999;
  expect(raising.take()).toBeUndefined();
  time.now++;
  expect(raising.take()).toEqual({ queues: [], patience: 50 });
  expect(raising.take()).toBeUndefined();
  raising.raised();
  time.now += 200;
  expect(raising.take()).toBeUndefined();
});

test("after failed raises of floors, the pauses and the patience grow", () => {
  const time = { now: 0 };
  const raising = new Raising({ now: () => time.now });
  raising.noteLoweredFloors(["a"]);
  const tries: { waited: number; patience: number }[] = [];
  while (tries.length < 6) {
    const asked = time.now;
    let due = raising.take();
    for (; !due; due = raising.take()) time.now += 100;
    tries.push({ waited: time.now - asked, patience: due.patience });
    raising.failed(due.queues);
  }
  expect(tries.map(({ waited }) => waited)).toEqual([0, 800, 3_200, 12_800, 51_200, 60_000]);
  expect(tries.map(({ patience }) => patience)).toEqual([50, 50, 160, 640, 1_000, 1_000]);
});

test("floors are checked every five minutes, and sooner after a failed check", () => {
  const time = { now: 0 };
  const raising = new Raising({ now: () => time.now });
  const waited = (): number => {
    const from = time.now;
    while (!raising.takeCheck()) time.now += 1_000;
    return time.now - from;
  };
  expect(waited()).toBe(300_000);
  // Only one check at a time.
  expect(raising.takeCheck()).toBe(false);
  raising.checked(false);
  expect(waited()).toBe(30_000);
  raising.checked(true);
  expect(waited()).toBe(300_000);
});

test("a failed check of floors is logged", async () => {
  const place = await ground();
  const warn = vi.fn<(message: string) => void>();
  const engine = await openPostgres({ ...place, logger: { warn, error: warn } });
  onTestFinished(() => engine.close());
  await engine.execute([addOne]);
  const client = await place.client();
  await client.query(`
    CREATE FUNCTION ${place.schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'it takes too long'; END $$;
    CREATE TRIGGER refuse BEFORE DELETE ON ${place.schema}.inbox_floor
      FOR EACH STATEMENT EXECUTE FUNCTION ${place.schema}.refuse()`);
  const now = performance.now.bind(performance);
  const later = vi.spyOn(performance, "now").mockImplementation(() => now() + 300_000);
  onTestFinished(() => later.mockRestore());
  await engine.execute([addOne]);
  await expect.poll(() => warn.mock.calls.flat().join()).toContain("it takes too long");
});
