import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { raiseFloors } from "../../../src/engines/postgres/line/floors.ts";
import { open as openDibs } from "../../../src/index.ts";
import { PostgresServer, QUICK } from "../../postgres/server.ts";
import { freshDatabase } from "../../postgres/shared.ts";
import { Proxy } from "../../proxy.ts";
import { connect, ground, roleOf } from "./kit.ts";

test("of ten processes that open a new store at once, one creates it, and all can use it", async () => {
  const { open } = await ground();
  const all = await Promise.all(Array.from({ length: 10 }, () => open()));
  await Promise.all(all.map((dibs, n) => dibs.queue<number>("work").add(n)));
  expect((await all[0]!.queue("work").stats()).depth.ready).toBe(10);
});

test("a schema of a newer dibs is refused with the reason", async () => {
  const { open, client, schema } = await ground();
  await (await open()).close();
  await (await client()).query(`INSERT INTO ${schema}.migration (number) VALUES (1000)`);
  // A newer schema that it supports is accepted.
  await (await open()).close();
  await (await client()).query(`UPDATE ${schema}.store SET needs = 1000`);
  await expect(open()).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(/newer dibs \(1000; this one knows \d+\)/),
  });
});

test("with create: false, only an existing store is opened", async () => {
  const { open, client, schema } = await ground();
  await expect(open({ create: false })).rejects.toMatchObject({
    code: "INVALID",
    message: expect.stringContaining(`no store in the schema "${schema}"`),
  });
  const { rows } = await (await client()).query("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema]);
  expect(rows).toEqual([]);
  await open();
  await open({ create: false });
});

test("without notifications, as behind a transaction pooler, work is found by the slow poll", async () => {
  const { open } = await ground();
  const [one, other] = [await open({ listen: false }), await open({ listen: false })];
  const worker = one.queue<number, number>("work").work((task) => task.data + 1);
  await worker.ready;
  const task = await other.queue<number, number>("work").add(1);
  expect(await task.result({ timeout: "10s" })).toBe(2);
  await worker.stop();
});

test("an address without a server is refused without its password", async () => {
  const refusal = openDibs("postgres://user:secret@127.0.0.1:1/database");
  await expect(refusal).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await expect(refusal).rejects.not.toMatchObject({ message: expect.stringContaining("secret") });
});

test.each(["Capital", "with space", "pg_own", "", "a;b"])("a schema called %j is refused", async (schema) => {
  await expect(openDibs("postgres://127.0.0.1:1/x", { schema })).rejects.toMatchObject({ code: "INVALID" });
});

test("housekeeping continues on a database with a publication for all tables", async () => {
  const url = await freshDatabase(onTestFinished);
  const engine = await openPostgres({ url });
  onTestFinished(() => engine.close());
  const link = await connect({ url, schema: "dibs" });
  await link.exec("CREATE PUBLICATION everything FOR ALL TABLES");
  // So many differences are folded into the counters.
  for (let i = 0; i < 250; i++) {
    await engine.execute([{ verb: "add", tasks: [{ queue: "work", data: "1" }] }]);
    await engine.execute([{ verb: "claim", queues: ["work"], max: 1, worker: "w" }]);
  }
  await raiseFloors(link, ["work"]);
  await raiseFloors(link, ["work"]);
  await engine.execute([{ verb: "housekeep" }, { verb: "prune", limit: 100 }]);
  expect(await link.all("SELECT claimed FROM dibs.depth")).toEqual([{ claimed: 250 }]);
});

test("the name of a schema may be an SQL keyword", async () => {
  const { url, client } = await ground();
  await (await client()).query(`DROP SCHEMA IF EXISTS "order" CASCADE`);
  const dibs = await openDibs(url, { schema: "order" });
  onTestFinished(async () => void (await (await client()).query(`DROP SCHEMA "order" CASCADE`)));
  onTestFinished(() => dibs.close());
  const queue = dibs.queue<number>("work");
  const caller = await client();
  await caller.query("BEGIN");
  await queue.add(1, { tx: caller, groupKey: "g" });
  await caller.query("COMMIT");
  const [claim] = await queue.claim();
  await claim!.ack();
  expect((await queue.stats()).depth.done).toBe(1);
});

test.each([
  ["database", (url: URL) => (url.pathname = "/nowhere")],
  ["user", (url: URL) => (url.username = "nobody_here")],
])("a %s that does not exist is reported with a clear error that is not retryable", async (_, change) => {
  const { url } = await ground();
  const address = new URL(url);
  change(address);
  await expect(openDibs(address.href)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    retryable: false,
    message: expect.stringContaining("does not let this user in"),
  });
});

/** Resolves when this address was asked so many times for a connection. */
async function counting(target: string, times: number): Promise<{ url: string; reached: Promise<void> }> {
  const address = new URL(target);
  const proxy = await Proxy.start(Number(address.port));
  onTestFinished(() => proxy.close());
  address.port = `${proxy.port}`;
  const { promise: reached, resolve } = Promise.withResolvers<void>();
  let asked = 0;
  proxy.cutAfter = (sent) => {
    if (sent.includes("application_name") && ++asked === times) resolve();
    return false;
  };
  return { url: address.href, reached };
}

test("a server without a free connection is waited for", async () => {
  const place = await ground();
  await (await place.open()).close();
  const role = await roleOf(place);
  await role.alter("NOSUPERUSER CONNECTION LIMIT 0");
  await role.mayUse();
  const { url, reached } = await counting(role.url, 3);
  const opening = place.open({}, url);
  await reached;
  await role.alter("CONNECTION LIMIT -1");
  await (await opening).queue<number>("work").add(1);
});

test("a server with room for one of its connections is waited for", async () => {
  const place = await ground();
  await (await place.open()).close();
  const role = await roleOf(place);
  await role.alter("NOSUPERUSER CONNECTION LIMIT 1");
  await role.mayUse();
  const { url, reached } = await counting(role.url, 3);
  const opening = place.open({}, url);
  await reached;
  await role.alter("CONNECTION LIMIT -1");
  await (await opening).queue<number>("work").add(1);
});

test("a server that is starting up is waited for", async () => {
  // The server recovers, and accepts no connection before that is over.
  const server = await PostgresServer.start({ settings: { ...QUICK, hot_standby: "off" } });
  onTestFinished(() => server.remove());
  await server.becomeStandby();
  await server.stop();
  await server.restart();
  const { url, reached } = await counting(server.url, 3);
  const opening = openDibs(url);
  await reached;
  await server.promote();
  const dibs = await opening;
  onTestFinished(() => dibs.close());
  await dibs.queue<number>("work").add(1);
}, 60_000);

test("a missing password is reported with a clear error", async () => {
  const server = await PostgresServer.start({ settings: QUICK });
  onTestFinished(() => server.remove());
  const rules = join(server.folder, "data", "pg_hba.conf");
  writeFileSync(rules, `host all all 127.0.0.1/32 scram-sha-256\n`);
  await server.stop();
  await server.restart();
  await expect(openDibs(server.url)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    retryable: false,
    message: expect.stringContaining("does not let this user in"),
  });
});

test("a server without encryption is reported with a clear error if the address requires encryption", async () => {
  const { url } = await ground();
  await expect(openDibs(`${url}?sslmode=verify-full`)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    retryable: false,
    message: expect.stringMatching(/does not support SSL.*sslmode/),
  });
});

test.each(["postgres://user%ff@127.0.0.1/x", "postgres://user@127.0.0.1/x?port=99999"])(
  "%s is no address",
  async (address) => {
    await expect(openDibs(address)).rejects.toMatchObject({ code: "INVALID" });
  },
);

test.each([
  "postgres://user:a,b@one:5432,two:5432/x",
  "postgres://one,two/x",
  "postgresql://user@/x?host=one,two",
])("%s names several hosts, and is refused with these words", async (address) => {
  await expect(openDibs(address)).rejects.toMatchObject({
    code: "INVALID",
    message: expect.stringContaining("names one host"),
  });
});

test("a comma in a password does not separate hosts", async () => {
  const { url, open } = await ground();
  const address = new URL(url);
  address.password = "a,b";
  await open({}, address.href.replace("%2C", ","));
});

test("an invalid `listen` option is shown in the error", async () => {
  const listen = "no" as unknown as boolean;
  await expect(openDibs("postgres://127.0.0.1:1/x", { listen })).rejects.toMatchObject({
    code: "INVALID",
    message: `listen must be true or false, not "no".`,
  });
});

test("tables with short-lived rows are vacuumed soon", async () => {
  const { open, client, schema } = await ground();
  await (await open()).close();
  const { rows } = await (
    await client()
  ).query<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'
       AND reloptions @> '{autovacuum_vacuum_scale_factor=0.02,autovacuum_vacuum_threshold=5000,autovacuum_vacuum_cost_delay=0}'`,
    [schema],
  );
  const hot = [
    "claim",
    "delta",
    "event",
    "floor",
    "gate",
    "inbox",
    "lane",
    "notice",
    "ready",
    "ready_elsewhere",
    "ready_sticky",
  ];
  expect(rows.map(({ name }) => name).toSorted()).toEqual([...hot, "scheduled", "session", "ttl", "waiting"]);
});

test("an invalid address is refused with an error that does not quote it", async () => {
  const refusal = openDibs("postgres://user:secret@127.0.0.1:99999/database");
  await expect(refusal).rejects.toMatchObject({ code: "INVALID" });
  await expect(refusal).rejects.not.toMatchObject({ message: expect.stringContaining("secret") });
});

test("connections do not keep an idle program alive", async () => {
  const { url, schema } = await ground();
  const source = `import { open } from "./src/index.ts";
    const dibs = await open(${JSON.stringify(url)}, { schema: "${schema}" });
    console.log((await dibs.queue("work").add(1)).id);`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", source], {
    timeout: 10_000,
  });
  expect(stdout).toMatch(/^[0-9a-f-]{36}/);
});

test("a missing certificate file is named in an error at once", async () => {
  const { url } = await ground();
  for (const [file, why] of [
    ["/no/such/file", "/no/such/file .*ENOENT"],
    [tmpdir(), "EISDIR"],
  ] as const) {
    const opening = openDibs(`${url}?sslrootcert=${encodeURIComponent(file)}`);
    await expect(opening).rejects.toMatchObject({
      code: "INVALID",
      retryable: false,
      message: expect.stringMatching(new RegExp(`${why}.*sslrootcert`)),
    });
  }
});
