import diagnostics from "node:diagnostics_channel";
import { readFileSync, writeFileSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Pool } from "pg";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/engine/system-clock.ts";
import { GivenPassword, type PasswordSource } from "../../../src/engines/postgres/connection/password.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { HeartbeatThread } from "../../../src/engines/postgres/heartbeat/heartbeats.ts";
import { type Dibs, open, type OpenOptions, type PostgresPool } from "../../../src/index.ts";
import { PostgresServer, QUICK } from "../../postgres/server.ts";

/** A server that lets the user "app" in with its current password only (scram-sha-256), and says who connects. */
let server: PostgresServer;
let admin: Client;

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { ...QUICK, log_connections: "on" } });
  const rules = join(server.folder, "data/pg_hba.conf");
  writeFileSync(rules, `host all app 127.0.0.1/32 scram-sha-256\n${readFileSync(rules, "utf8")}`);
  admin = new Client({ connectionString: server.url });
  await admin.connect();
  await admin.query(`CREATE ROLE app LOGIN PASSWORD 'first'; GRANT CREATE ON DATABASE postgres TO app`);
  await admin.query(`SELECT pg_reload_conf()`);
});

afterAll(async () => {
  await admin.end();
  await server.remove();
});

let passwords = 0;
let current = "first";
const password = Object.assign(
  async (): Promise<string> => (password.answers ? current : new Promise<string>(() => {})),
  { answers: true },
);

/** Every connection is ended, and the next ones need another password. */
async function rotate(): Promise<void> {
  const next = `password ${++passwords}`;
  await admin.query(`ALTER ROLE app PASSWORD '${next}'`);
  current = next;
  await endConnections();
}

async function endConnections(): Promise<void> {
  await admin.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'`);
}

async function opened(address: string | PostgresPool, options: OpenOptions = {}): Promise<Dibs> {
  const dibs = await open(address, { schema: `s${++passwords}`, ...options });
  onTestFinished(() => dibs.close());
  return dibs;
}

/** A heartbeat thread without the rest of an engine. `onHeartbeat` resolves at the next heartbeat. */
function heartbeatThread(source: PasswordSource) {
  const link = { url: address(), schema: "heartbeats", prepare: true, settings: {}, connectMs: 10_000 };
  let heard = Promise.withResolvers<void>();
  const heartbeats = new HeartbeatThread(
    { link, tx: { session: true, durability: "full" }, where: "here", patience: 10_000 },
    (report) => {
      if ("result" in report) heard.resolve();
    },
    (error) => heard.reject(error),
    async () => true,
    source,
  );
  onTestFinished(() => heartbeats.stop());
  const onHeartbeat = (): Promise<void> => {
    heard = Promise.withResolvers();
    return heard.promise;
  };
  return { link, onHeartbeat, heartbeats };
}

const address = (): string => `postgres://app@127.0.0.1:${server.port}/postgres`;
const options = () => ({ host: "127.0.0.1", port: server.port, user: "app", database: "postgres", password });

test("a server that requires a password refuses the address without one", async () => {
  await expect(open(address())).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

test("a password function is called for every connection, also after the password has changed", async () => {
  let calls = 0;
  const dibs = await opened(address(), { password: () => (calls++, current) });
  const queue = dibs.queue("q");
  await queue.add(1);
  const before = calls;
  expect(before).toBeGreaterThan(1);
  await rotate();
  await queue.add(2);
  expect((await queue.stats()).depth.ready).toBe(2);
  expect(calls).toBeGreaterThan(before);
});

/** Resolves when a worker has sent another heartbeat. */
async function nextHeartbeat(dibs: Dibs): Promise<void> {
  for (let last = -1; ;) {
    const [worker] = await dibs.workers();
    if (worker && worker.silentFor < last) return;
    last = worker?.silentFor ?? -1;
    await sleep(20);
  }
}

test.for(["address", "pool"])("heartbeats continue after the password has changed (%s)", async (kind) => {
  const dibs = await (kind === "pool" ? opened(new Pool(options())) : opened(address(), { password }));
  const worker = dibs.queue("q", { lease: "3s" }).work(() => {});
  await nextHeartbeat(dibs);
  const [before] = await dibs.workers();
  await rotate();
  await nextHeartbeat(dibs);
  await nextHeartbeat(dibs);
  // The session number is unchanged, so the worker has not joined again.
  expect((await dibs.workers())[0]!.joinedAt).toEqual(before!.joinedAt);
  await worker.stop();
});

test("the heartbeat thread uses the last known password if the program does not answer", async () => {
  const source = new GivenPassword(password);
  await source.get();
  const { link, onHeartbeat, heartbeats } = heartbeatThread(source);
  await (await openPostgres({ ...link, password })).close();
  // A session that has gone is answered too.
  heartbeats.join(1, 3_000, systemClock.read().awake);
  await onHeartbeat();
  password.answers = false;
  onTestFinished(() => void (password.answers = true));
  await endConnections();
  await onHeartbeat();
});

test("a session lives while the event loop is blocked and its connections are gone", async () => {
  const dibs = await opened(address(), { password });
  const queue = dibs.queue("q", { lease: "3s" });
  queue.work(async ({ signal }) => {
    await endConnections();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5_000);
    // What has happened meanwhile is reported now.
    await nextHeartbeat(dibs);
    return signal.aborted;
  });
  const task = await queue.add(1);
  expect(await dibs.task(task.id).result({ timeout: "60s" })).toBe(false);
  expect(await dibs.task(task.id).history()).toHaveLength(1);
});

test.for([
  ["returns nothing", undefined, "failed (it returned undefined)"],
  ["returns an empty text", "", "failed (it returned an empty text)"],
  ["throws", new Error("no token"), "failed (no token)"],
] as const)("a password function that %s fails open() with that reason", async ([, given, reason]) => {
  const give = (): never => {
    if (given instanceof Error) throw given;
    return given as never;
  };
  await expect(open(address(), { password: give })).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: expect.stringContaining(reason),
  });
});

test("a call is retried while the password function fails", async () => {
  let failures = 0;
  const dibs = await opened(address(), {
    password: () => {
      if (failures-- > 0) throw new Error("not now");
      return current;
    },
  });
  failures = 3;
  await endConnections();
  await dibs.queue("q").add(1);
  expect(failures).toBeLessThan(0);
});

test("a pool's own clients are not used, and its end does not affect the store", async () => {
  const pool = new Pool({ ...options(), max: 1 });
  const client = await pool.connect();
  const dibs = await opened(pool);
  expect(pool.totalCount).toBe(1);
  client.release();
  await pool.end();
  await endConnections();
  await dibs.queue("q").add(1);
  expect((await dibs.queue("q").stats()).depth.ready).toBe(1);
});

test("a pool with an address can be opened, and the function of open() replaces its password", async () => {
  const pool = new Pool({ connectionString: address().replace("app@", "app:wrong@") });
  onTestFinished(() => pool.end());
  await expect(open(pool)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: expect.stringContaining(`127.0.0.1:${server.port}/postgres`),
  });
  const dibs = await opened(pool, { password });
  await dibs.queue("q").add(1);
});

test("a pool with functions that no thread can get has heartbeats from the program's own thread", async () => {
  let threads = 0;
  const count = (): void => void threads++;
  diagnostics.subscribe("worker_threads", count);
  onTestFinished(() => void diagnostics.unsubscribe("worker_threads", count));
  let streams = 0;
  const stream = () => (streams++, new Socket());
  const dibs = await opened(new Pool({ ...options(), stream }));
  const worker = dibs.queue("q", { lease: "3s" }).work(() => {});
  await nextHeartbeat(dibs);
  await endConnections();
  await nextHeartbeat(dibs);
  await worker.stop();
  expect({ threads, streams }).toEqual({ threads: 0, streams: expect.any(Number) });
  expect(streams).toBeGreaterThan(2);
});

test.for([
  ["work.db", { password }, "password are for PostgreSQL"],
  ["http://127.0.0.1:1", { password }, "password is for a store that is opened directly"],
  ["postgres://127.0.0.1/db", { password: "secret" }, "password must be a function"],
  [{ connect() {} }, {}, "a pg.Pool"],
] as const)("open(%s, %o) is refused", async ([given, wrong, reason]) => {
  await expect(open(given as never, wrong as never)).rejects.toMatchObject({
    code: "INVALID",
    message: expect.stringContaining(reason),
  });
});
