// A server may give out the same numbers again: after a crash, and when a store is restored from a dump.

import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { createBroker } from "../../../src/broker/broker.ts";
import type { WorkerInfo } from "../../../src/core/task/task.ts";
import { systemClock } from "../../../src/engine/system-clock.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { beginIncarnation, INCARNATION } from "../../../src/engines/postgres/connection/incarnation.ts";
import { open } from "../../../src/index.ts";
import { PostgresServer, QUICK } from "../../postgres/server.ts";
import { Proxy } from "../../proxy.ts";
import { connect, ground } from "./kit.ts";

async function server(settings: Record<string, string> = {}): Promise<PostgresServer> {
  const started = await PostgresServer.start({ settings: { ...QUICK, ...settings } });
  onTestFinished(() => started.remove());
  return started;
}

async function admin(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

interface Cut {
  url: string;
  /** Cuts right after the commit of a transaction with these words; resolves then. */
  cutAtCommitOf(words: string): Promise<void>;
  mend(): void;
}

async function proxyTo(target: string): Promise<Cut> {
  const address = new URL(target);
  const proxy = await Proxy.start(Number(address.port));
  onTestFinished(() => proxy.close());
  address.port = `${proxy.port}`;
  return {
    url: address.href,
    cutAtCommitOf: (words) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      let isOurs = false;
      proxy.cutAfter = (sent) => {
        isOurs ||= sent.includes(words);
        // Excludes BEGIN, whose text contains READ COMMITTED.
        const isLast = isOurs && /COMMIT(?!TED)/.test(sent.toString());
        if (isLast) resolve();
        return isLast;
      };
      return promise;
    },
    mend: () => {
      proxy.cutAfter = undefined;
      proxy.mend();
    },
  };
}

/** `isKept`: whether the commit, and so the transaction's number, is in the log after the crash. */
test.each([
  ["full", true],
  ["relaxed", false],
] as const)(
  "a commit whose answer was lost before a crash is OUTCOME_UNKNOWN, with durability %s, and its key is safe to add again",
  async (durability, isKept) => {
    // A commit that is not waited for does not reach the log by itself.
    const postgres = await server({ wal_writer_delay: "10s", autovacuum: "off" });
    const cut = await proxyTo(postgres.url);
    const engine = await openPostgres({ url: cut.url, durability });
    const port = createBroker(engine, { clock: systemClock });
    onTestFinished(() => port.close());
    await port.add([{ queue: "work", data: "{}" }]);
    const before = await admin(postgres.url);
    await before.query("CHECKPOINT");

    const task = { queue: "work", data: "{}", idempotencyKey: "the-key" };
    const isCut = cut.cutAtCommitOf("the-key");
    const adding = port.add([task]).then(
      () => "added",
      (error: unknown) => error,
    );
    await isCut;
    const committed = `SELECT xmin::text::int8 AS xid FROM dibs.task WHERE idempotency_key = 'the-key'`;
    const find = async () => (await before.query<{ xid: string }>(committed)).rows[0]?.xid;
    await expect.poll(find).toBeDefined();
    const xid = await find();

    await postgres.stop("immediate");
    await postgres.restart();
    const after = await admin(postgres.url);
    expect((await after.query(committed)).rowCount).toBe(isKept ? 1 : 0);
    // Other transactions get the numbers that are not in the log, also that of the lost transaction.
    const next = `SELECT pg_current_xact_id()::text::int8 > $1::int8 AS past`;
    while (!(await after.query<{ past: boolean }>(next, [xid])).rows[0]!.past);
    const status = `SELECT pg_xact_status($1::text::xid8) AS status`;
    expect((await after.query<{ status: string }>(status, [xid])).rows[0]!.status).toBe("committed");

    cut.mend();
    expect(await adding).toMatchObject({ code: "OUTCOME_UNKNOWN", retryable: true });
    const [again] = await port.add([task]);
    expect(again!.existing).toBe(isKept);
    expect((await port.stats("work")).depth.ready).toBe(2);
  },
);

test("a crash right after a crash does not lead to the same fences, whatever is left of the log", async () => {
  const postgres = await server({ wal_writer_delay: "10s", autovacuum: "off" });
  const fences: number[] = [];
  for (let n = 0; n < 3; n++) {
    const engine = await openPostgres({ url: postgres.url, durability: "relaxed" });
    const port = createBroker(engine, { clock: systemClock });
    await port.add([{ queue: "work", data: "{}" }]);
    const { tasks } = await port.claim({ queues: ["work"], max: 1, worker: "w", wait: 0 });
    fences.push(tasks[0]!.fence);
    await postgres.stop("immediate");
    await port.close();
    await postgres.restart();
  }
  const [first, second, third] = fences as [number, number, number];
  expect(second).toBeGreaterThan(first + 1_000_000);
  expect(third).toBeGreaterThan(second);
}, 60_000);

test("an incarnation stays the same when a server is stopped and started, and while many processes read it", async () => {
  const postgres = await server();
  await (await open(postgres.url)).close();
  const incarnation = async () =>
    (await (await admin(postgres.url)).query<{ token: string }>(INCARNATION)).rows;
  const before = await incarnation();
  expect(before).toHaveLength(1);
  await postgres.stop("fast");
  await postgres.restart();
  const links = await Promise.all(
    Array.from({ length: 5 }, () => connect({ url: postgres.url, schema: "dibs" })),
  );
  await Promise.all(links.map((link) => beginIncarnation(link)));
  expect(await incarnation()).toEqual(before);
});

test("a store that was restored from a dump gives out no fence and no session again", async () => {
  const { schema, engine: openEngine, client } = await ground();
  const engine = await openEngine();
  const claim = async (): Promise<{ fence: number; session: number }> => {
    const worker = { id: "w", queues: ["work"] } as unknown as WorkerInfo;
    const [joined] = await engine.execute([
      { verb: "join", worker, lease: 60_000 },
      { verb: "add", tasks: [{ queue: "work", data: "1" }] },
    ]);
    const { session } = (joined as { ok: { session: number } }).ok;
    const [claimed] = await engine.execute([
      { verb: "claim", queues: ["work"], max: 1, worker: "w", session },
    ]);
    const { tasks } = (claimed as { ok: { tasks: { fence: number }[] } }).ok;
    return { fence: tasks[0]!.fence, session };
  };
  const first = await claim();
  const dba = await client();
  // A dump also contains the rows of unlogged tables.
  await dba.query(`CREATE TABLE ${schema}.dump AS SELECT * FROM ${schema}.incarnation`);
  const since = [await claim(), await claim()];
  expect(since[1]!.fence).toBe(first.fence + 2);
  // Do what a restore does: create the table, write its rows, and set the sequences.
  const restore = [
    `ALTER TABLE ${schema}.incarnation RENAME TO former`,
    `CREATE UNLOGGED TABLE ${schema}.incarnation (LIKE ${schema}.former INCLUDING ALL)`,
    `DROP TABLE ${schema}.former`,
    `INSERT INTO ${schema}.incarnation SELECT * FROM ${schema}.dump`,
    `SELECT setval('${schema}.fence', ${first.fence})`,
    `SELECT setval('${schema}.session_id', ${first.session})`,
  ];
  for (const statement of restore) await dba.query(statement);
  const next = await claim();
  expect(next.fence).toBeGreaterThan(since[1]!.fence + 1_000_000);
  expect(next.session).toBeGreaterThan(since[1]!.session + 1_000_000);
  expect((await claim()).fence).toBe(next.fence + 1);
});

test("two restores of the same dump do not lead to the same fences", async () => {
  const place = await ground();
  const queue = (await place.open()).queue<number>("work");
  const dba = await place.client();
  await dba.query(`DELETE FROM ${place.schema}.incarnation`);
  await queue.addMany([{ data: 1 }, { data: 2 }]);
  const [before] = await queue.claim();
  await dba.query(`SELECT setval('${place.schema}.fence', 1); DELETE FROM ${place.schema}.incarnation`);
  const [after] = await queue.claim();
  expect(after!.fence).toBeGreaterThan(before!.fence);
});
