import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { Dibs } from "../../../src/api/dibs.ts";
import { createBroker } from "../../../src/broker/broker.ts";
import type { Hint } from "../../../src/engine/hint.ts";
import { systemClock } from "../../../src/engine/system-clock.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { channelOf } from "../../../src/engines/postgres/connection/notifier.ts";
import { INCARNATION } from "../../../src/engines/postgres/connection/incarnation.ts";
import { catalogueLock } from "../../../src/engines/postgres/connection/locks.ts";
import { open, type Queue } from "../../../src/index.ts";
import type { Proxy } from "../../proxy.ts";
import { PostgresServer, QUICK, type ServerOptions } from "../../postgres/server.ts";
import { endConnections, ground, named, proxyTo, roleOf } from "./kit.ts";
import { isLong } from "../../run/long.ts";

async function server({ settings, ...options }: ServerOptions = {}): Promise<PostgresServer> {
  const started = await PostgresServer.start({ settings: { ...QUICK, ...settings }, ...options });
  onTestFinished(() => started.remove());
  return started;
}

/** Crashes of a server under load. */
const CRASHES = isLong ? 40 : 6;

/** Excludes BEGIN, whose text contains READ COMMITTED. */
function hasCommit(sent: { toString(): string }): boolean {
  return /COMMIT(?!TED)/.test(sent.toString());
}

/** Adds tasks with keys until `isOver`. If the outcome of an add is unknown, adds the same key again. */
async function addUntil(dibs: Dibs, isOver: () => boolean): Promise<Map<string, string>> {
  const queue = dibs.queue<number>("work");
  const ids = new Map<string, string>();
  for (let n = 0; !isOver(); n++) {
    const key = `key-${n}`;
    for (;;) {
      try {
        ids.set(key, (await queue.add(n, { idempotencyKey: key })).id);
        break;
      } catch (error) {
        expect((error as { code: string }).code).toMatch(/^(UNAVAILABLE|OUTCOME_UNKNOWN)$/);
      }
    }
  }
  return ids;
}

/** Ids of tasks, by the keys they were added with, and how often their handlers ran. */
interface Worked {
  ids: Map<string, string>;
  runs: Map<string, number>;
}

/** A worker that counts, beside an adder, while something happens to their connections. Ends when all is done. */
async function workWhile(dibs: Dibs, something: () => Promise<void>): Promise<Worked> {
  const queue = dibs.queue<number>("work", { backoff: { type: "fixed", delay: 0 } });
  const runs = new Map<string, number>();
  const worker = queue.work(
    (task) => {
      const key = `key-${task.data}`;
      runs.set(key, (runs.get(key) ?? 0) + 1);
    },
    { concurrency: 5 },
  );
  await worker.ready;
  let over = false;
  const adding = addUntil(dibs, () => over);
  await something();
  over = true;
  const ids = await adding;
  for (const id of ids.values()) await dibs.task<number>(id).result({ timeout: "20s" });
  await worker.stop();
  return { ids, runs };
}

/** Each task has ended once. A handler ran again only if its claim was lost, as the ledger says. */
async function expectEachOnce(dibs: Dibs, { ids, runs }: Worked): Promise<void> {
  expect(new Set(ids.values()).size).toBe(ids.size);
  expect([...ids.keys()].filter((key) => !runs.has(key))).toEqual([]);
  for (const [key, id] of ids) {
    const outcomes = (await dibs.task(id).history()).map(({ outcome }) => outcome);
    expect(outcomes.filter((outcome) => outcome === "done")).toHaveLength(1);
    expect(outcomes.length).toBeGreaterThanOrEqual(runs.get(key)!);
  }
  const { depth } = await dibs.queue("work").stats();
  expect(depth).toMatchObject({ done: ids.size, ready: 0, claimed: 0, scheduled: 0, dead: 0 });
}

test("connections that an administrator ends are opened again, and nothing is lost or done twice", async () => {
  const { url, open: openHere, client, schema } = await ground();
  const dibs = await openHere({}, named(url, schema));
  const admin = await client();
  const worked = await workWhile(dibs, async () => {
    for (let round = 0; round < 5; round++) {
      await sleep(100);
      while ((await endConnections(admin, schema)) === 0) await sleep(5);
    }
    await sleep(100);
  });
  await expectEachOnce(dibs, worked);
});

test("workers continue after a restart of the server", async () => {
  const postgres = await server();
  const dibs = await open(postgres.url);
  onTestFinished(() => dibs.close());
  const worked = await workWhile(dibs, async () => {
    for (const mode of ["immediate", "fast", "immediate"] as const) {
      await sleep(300);
      await postgres.stop(mode);
      await sleep(200);
      await postgres.restart();
    }
    await sleep(300);
  });
  await expectEachOnce(dibs, worked);
});

/** Tasks added without keys: the number of each, and the outcome that its caller got. */
type CommitEffects = Map<number, "added" | "unknown">;

const ADDERS = 8;

/**
 * Several adders at once, so that their calls share batches. After UNAVAILABLE a task was not added, and is added
 * again.
 */
class AddersWithoutKeys {
  readonly told: CommitEffects = new Map();
  readonly #queue: Queue<number>;
  readonly #adding: Promise<unknown>;
  #last = 0;
  #isOver = false;

  constructor(dibs: Dibs) {
    this.#queue = dibs.queue<number>("work");
    this.#adding = Promise.all(Array.from({ length: ADDERS }, () => this.#addOn()));
  }

  async #addOn(): Promise<void> {
    while (!this.#isOver) {
      const n = ++this.#last;
      this.told.set(n, await this.#add(n));
    }
  }

  async #add(n: number): Promise<"added" | "unknown"> {
    for (;;) {
      try {
        await this.#queue.add(n);
        return "added";
      } catch (error) {
        const { code } = error as { code: string };
        if (code === "OUTCOME_UNKNOWN") return "unknown";
        expect(code).toBe("UNAVAILABLE");
      }
    }
  }

  /** Waits until so many more adds are answered. */
  async goOnFor(count: number): Promise<void> {
    const enough = this.told.size + count;
    while (this.told.size < enough) await sleep(5);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#adding;
  }
}

/** Each task whose add resolved is stored once, each with an unknown outcome at most once, and no others. */
async function expectAsTold(dibs: Dibs, told: CommitEffects): Promise<void> {
  const times = new Map<number, number>();
  for (let after: string | undefined; ;) {
    const { tasks, next } = await dibs.queue<number>("work").tasks({ state: "ready", after, limit: 1_000 });
    for (const { data } of tasks) times.set(data as number, (times.get(data as number) ?? 0) + 1);
    if (next === null) break;
    after = next;
  }
  const named = (how: "added" | "unknown"): number[] =>
    [...told].filter(([, word]) => word === how).map(([n]) => n);
  expect(named("added").length).toBeGreaterThan(ADDERS);
  expect(named("added").filter((n) => times.get(n) !== 1)).toEqual([]);
  expect([...times].filter(([n, count]) => count > 1 || !told.has(n))).toEqual([]);
  expect((await dibs.queue("work").stats()).depth.ready).toBe(times.size);
}

/** Cuts every connection right after a commit was forwarded: the server executes it, and its answer is lost. */
async function cutAtCommit(proxy: Proxy): Promise<void> {
  await new Promise<void>((resolve) => {
    proxy.cutAfter = (sent) => {
      const isCommit = hasCommit(sent);
      if (isCommit) resolve();
      return isCommit;
    };
  });
  proxy.cutAfter = undefined;
}

test("a task without a key is added once, whatever happens to the connection", async () => {
  const { url, open: openHere, client, schema } = await ground();
  const { proxy, url: cut } = await proxyTo(url);
  const dibs = await openHere({}, named(cut, schema));
  const admin = await client();
  const adders = new AddersWithoutKeys(dibs);
  for (let round = 0; round < 8; round++) {
    await adders.goOnFor(20);
    await cutAtCommit(proxy);
    proxy.mend();
    await adders.goOnFor(20);
    while ((await endConnections(admin, schema)) === 0) await sleep(5);
  }
  await adders.stop();
  const { told } = adders;
  // The store read the outcome of each commit from the server.
  expect([...told.values()]).not.toContain("unknown");
  await expectAsTold(dibs, told);
});

test("when the server crashes, a task without a key is added once, or the outcome is unknown", async () => {
  const postgres = await server();
  const { proxy, url } = await proxyTo(postgres.url);
  const dibs = await open(url);
  onTestFinished(() => dibs.close());
  const adders = new AddersWithoutKeys(dibs);
  for (let round = 0; round < CRASHES; round++) {
    await adders.goOnFor(20);
    await cutAtCommit(proxy);
    await postgres.stop("immediate");
    await postgres.restart();
    proxy.mend();
  }
  await adders.stop();
  const { told } = adders;
  // A server that has crashed since does not know the outcome.
  expect([...told.values()]).toContain("unknown");
  await expectAsTold(dibs, told);
}, 120_000);

test("notifications of other processes arrive again after the listening connection was ended", async () => {
  const { engine, client, schema } = await ground();
  const [near, far] = [await engine(), await engine()];
  const again = Promise.withResolvers<void>();
  const word = Promise.withResolvers<Hint>();
  near.onHint((hint) => {
    if (hint.foreign) again.resolve();
    // Only a notification names another's queue.
    if (hint.ready) word.resolve(hint);
  });
  const admin = await client();
  const { rowCount } = await admin.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = $1 AND state = 'idle'`,
    [`LISTEN ${channelOf(schema)}`],
  );
  expect(rowCount).toBe(2);
  await again.promise;
  await far.execute([{ verb: "add", tasks: [{ queue: "work", data: "1" }] }]);
  expect((await word.promise).ready).toEqual({ work: 1 });
});

test("a server on a Unix socket is used again after a restart", async () => {
  const folder = mkdtempSync(join(tmpdir(), "dibs-postgres-"));
  const postgres = await server({ folder, settings: { unix_socket_directories: folder } });
  const dibs = await open(
    `postgres://postgres@/postgres?host=${encodeURIComponent(folder)}&port=${postgres.port}`,
    { poll: 100 },
  );
  onTestFinished(() => dibs.close());
  const queue = dibs.queue<number, number>("work");
  const worker = queue.work((task) => task.data * 10);
  await worker.ready;
  expect(await (await queue.add(1)).result()).toBe(10);
  // The server removes its socket.
  await postgres.stop("fast");
  const adding = queue.add(2);
  // The housekeeping in the background meets the failure too: it polls the store ten times a second.
  expect(await Promise.race([adding, sleep(500, "waits")])).toBe("waits");
  await postgres.restart();
  expect(await (await adding).result()).toBe(20);
  await worker.stop();
}, 60_000);

test("the outcome of a commit whose answer was lost is read from the server", async () => {
  const { url, open: openHere } = await ground();
  const direct = await openHere();
  const cut = await proxyTo(url);
  const dibs = await openHere({}, cut.url);
  const queue = dibs.queue<string>("work");
  await queue.add("first");
  const isCut = Promise.withResolvers<void>();
  cut.proxy.cutAfter = (sent) => {
    const isCommit = hasCommit(sent);
    if (isCommit) isCut.resolve();
    return isCommit;
  };
  const adding = queue.add("second");
  await isCut.promise;
  cut.proxy.cutAfter = undefined;
  cut.proxy.mend();
  const { id } = await adding;
  expect((await direct.queue("work").stats()).depth.ready).toBe(2);
  expect((await direct.task(id).info()).data).toBe("second");
});

test("a commit whose outcome cannot be read is OUTCOME_UNKNOWN, and its key is safe to add again", async () => {
  const { url, schema, open: openHere } = await ground();
  const direct = await openHere();
  const cut = await proxyTo(url);
  const engine = await openPostgres({ url: cut.url, schema, patience: 300 });
  const port = createBroker(engine, { clock: systemClock });
  onTestFinished(() => port.close());
  const task = { queue: "work", data: "{}", idempotencyKey: "one" };
  await port.add([{ queue: "work", data: "{}" }]);
  cut.proxy.cutAfter = hasCommit;
  await expect(port.add([task])).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN", retryable: true });
  // A call that was certainly not executed is UNAVAILABLE.
  await expect(port.add([task])).rejects.toMatchObject({ code: "UNAVAILABLE", retryable: true });
  cut.proxy.cutAfter = undefined;
  cut.proxy.mend();
  const [added] = await port.add([task]);
  expect((await direct.queue("work").stats()).depth.ready).toBe(2);
  expect(added!.existing).toBe(true);
});

test("tasks of a claim whose answer was lost return at once, and are done", async () => {
  const { url, open: openHere } = await ground();
  const direct = await openHere();
  const queue = direct.queue<number>("work", { timeout: "1h" });
  const cut = await proxyTo(url);
  const far = await openHere({}, cut.url);
  const done: number[] = [];
  const worker = far.queue<number>("work").work((task) => void done.push(task.data));
  await worker.ready;
  let cuts = 0;
  for (let n = 0; n < 5; n++) {
    const claimed = Promise.withResolvers<void>();
    cut.proxy.cutAfter = (sent) => {
      const isCommit = hasCommit(sent);
      if (isCommit) claimed.resolve();
      return isCommit;
    };
    const task = await queue.add(n);
    await claimed.promise;
    cuts++;
    cut.proxy.cutAfter = undefined;
    cut.proxy.mend();
    await task.result();
  }
  expect(cuts).toBe(5);
  expect(new Set(done)).toEqual(new Set([0, 1, 2, 3, 4]));
  await worker.stop();
  expect((await queue.stats()).depth).toMatchObject({ ready: 0, claimed: 0, done: 5 });
});

/** Waits until the server has logged these words. */
async function untilLogged(postgres: PostgresServer, words: string): Promise<void> {
  while (!postgres.log.includes(words)) await sleep(5);
}

test("batches wait while a server is read-only", async () => {
  const postgres = await server();
  const dibs = await open(postgres.url);
  onTestFinished(() => dibs.close());
  const queue = dibs.queue<number>("work");
  await queue.add(1);
  const admin = new Client({ connectionString: postgres.url });
  await admin.connect();
  onTestFinished(() => admin.end());
  await admin.query(`ALTER DATABASE postgres SET default_transaction_read_only = on`);
  await admin.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dibs'`);
  const adding = queue.add(2);
  await untilLogged(postgres, "in a read-only transaction");
  await admin.query(`SET default_transaction_read_only = off`);
  await admin.query(`ALTER DATABASE postgres SET default_transaction_read_only = off`);
  await adding;
  expect((await queue.stats()).depth.ready).toBe(2);
});

test.each([
  ["statement_timeout", "statement timeout"],
  ["lock_timeout", "lock timeout"],
])("what %s cancels is told as UNAVAILABLE, and nothing of its batch happened", async (setting, words) => {
  const { url, open: openHere, client, schema } = await ground();
  const dibs = await openHere();
  const hurried = await openHere({}, `${url}?options=-c%20${setting}%3D200`);
  const queue = hurried.queue<string>("work");
  await queue.add("1");
  const blocker = await client();
  const locks = [
    `LOCK TABLE ${schema}.task IN ACCESS EXCLUSIVE MODE`,
    `SELECT pg_advisory_xact_lock(${catalogueLock(schema)})`,
  ];
  for (const lock of locks) {
    await blocker.query(`BEGIN; ${lock}`);
    for (const [data, options] of [["2"], ["2".repeat(5_000)], ["2", { idempotencyKey: "2" }]] as const) {
      await expect(queue.add(data, options)).rejects.toMatchObject({
        code: "UNAVAILABLE",
        retryable: true,
        message: expect.stringContaining(words),
      });
    }
    await blocker.query(`ROLLBACK`);
  }
  expect((await dibs.queue("work").stats()).depth.ready).toBe(1);
});

const TIMES_OUT = `SELECT current_setting('transaction_timeout', true) IS NOT NULL AS known`;

test("a transaction that exceeds a server timeout is executed again on another connection", async ({
  skip,
}) => {
  const { url, open: openHere, client, schema } = await ground();
  const { rows } = await (await client()).query<{ known: boolean }>(TIMES_OUT);
  if (!rows[0]!.known) skip("transaction_timeout came with PostgreSQL 17");
  const dibs = await openHere();
  const queue = dibs.queue<number>("work");
  await queue.add(1);
  const hurried = await openHere({}, `${url}?options=-c%20transaction_timeout%3D200`);
  const blocker = await client();
  await blocker.query(`BEGIN; LOCK TABLE ${schema}.task IN ACCESS EXCLUSIVE MODE`);
  const adding = hurried.queue<number>("work").add(2);
  const waiting = `SELECT pid FROM pg_locks WHERE NOT granted AND relation = '${schema}.task'::regclass`;
  const pids = new Set<number>();
  while (pids.size < 2) {
    for (const { pid } of (await blocker.query<{ pid: number }>(waiting)).rows) pids.add(pid);
    await sleep(5);
  }
  await blocker.query(`ROLLBACK`);
  await adding;
  expect((await queue.stats()).depth.ready).toBe(2);
});

test("statements are prepared again after a table has changed", async () => {
  const { open: openHere, client, schema } = await ground();
  const dibs = await openHere();
  const name = "nightly";
  await dibs.schedule(name, { every: "1h" }, { queue: "work" }).ready;
  expect(await dibs.schedules()).toMatchObject([{ name }]);
  await (await client()).query(`ALTER TABLE ${schema}.document ALTER COLUMN value TYPE varchar`);
  expect(await dibs.schedules()).toMatchObject([{ name }]);
});

test("an unknown refusal of the server is reported with its reason", async () => {
  const { open: openHere, client, schema } = await ground();
  const dibs = await openHere();
  const queue = dibs.queue<number>("work");
  await queue.add(1);
  const admin = await client();
  await admin.query(`
    CREATE FUNCTION ${schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON ${schema}.task EXECUTE FUNCTION ${schema}.refuse()`);
  await expect(queue.add(2)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    retryable: true,
    message: expect.stringContaining("not today, SQLSTATE P0001"),
    cause: { code: "P0001" },
  });
  await admin.query(`DROP TRIGGER refuse ON ${schema}.task`);
  await queue.add(2);
});

test("workers continue when a user may log in again", async () => {
  const place = await ground();
  const role = await roleOf(place);
  const engine = await openPostgres({ url: role.url, schema: place.schema, patience: 100 });
  const troubled = Promise.withResolvers<string>();
  const logger = { warn: troubled.resolve, error: troubled.resolve };
  const dibs = new Dibs(createBroker(engine, { clock: systemClock, logger }), logger);
  onTestFinished(() => dibs.close());
  const queue = dibs.queue<number, number>("work");
  const worker = queue.work((task) => task.data * 10);
  await worker.ready;
  await role.alter("NOLOGIN");
  await role.hangUp();
  await expect(queue.add(1)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    retryable: true,
    message: expect.stringContaining("does not let this user in"),
  });
  expect(await troubled.promise).toContain("trying again");
  await role.alter("LOGIN");
  expect(await (await queue.add(2)).result({ timeout: "20s" })).toBe(20);
  await worker.stop();
});

test("a process waits while all connections of the server are taken", async () => {
  const postgres = await server();
  const admin = new Client({ connectionString: postgres.url });
  await admin.connect();
  onTestFinished(() => admin.end());
  await admin.query(`CREATE ROLE busy LOGIN; GRANT CREATE ON DATABASE postgres TO busy`);
  const address = new URL(postgres.url);
  address.username = "busy";
  const dibs = await open(address.href);
  onTestFinished(() => dibs.close());
  const queue = dibs.queue<number>("work");
  await queue.add(1);
  await admin.query(`ALTER ROLE busy CONNECTION LIMIT 0`);
  await admin.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'busy'`);
  const adding = queue.add(2);
  await untilLogged(postgres, 'too many connections for role "busy"');
  await admin.query(`ALTER ROLE busy CONNECTION LIMIT -1`);
  await adding;
  expect((await queue.stats()).depth.ready).toBe(2);
});

test("a worker that is cut off loses its claims, cannot settle them later, and other workers do its tasks", async () => {
  const { url, open: openHere } = await ground();
  const cut = await proxyTo(url);
  const far = await openHere({}, cut.url);
  const near = await openHere();
  const policy = { lease: 2_000, elsewhere: 0 } as const;
  const queue = near.queue<string>("work", policy);
  const held = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const signal = Promise.withResolvers<unknown>();
  const late = Promise.withResolvers<unknown>();
  const worker = far.queue<string>("work", policy).work(async (task) => {
    task.signal.addEventListener("abort", () => signal.resolve(task.signal.reason));
    held.resolve();
    await release.promise;
    // Ack explicitly: the worker knows that the claim is lost, and would not send what the handler returns.
    await task.ack("by the one that was cut off").then(() => late.resolve("accepted"), late.resolve);
  });
  const task = await queue.add("x");
  await held.promise;
  cut.proxy.cut();
  const other = queue.work(() => "by another");
  expect(await task.result({ timeout: "10s" })).toBe("by another");
  cut.proxy.mend();
  expect(await signal.promise).toMatchObject({ code: "CLAIM_LOST" });
  release.resolve();
  expect(await late.promise).toMatchObject({ code: "CLAIM_LOST" });
  await Promise.all([worker.stop(), other.stop()]);
  expect((await task.info()).result).toBe("by another");
  expect(await task.history()).toMatchObject([{ outcome: "lost" }, { outcome: "done" }]);
});

test("workers wait until a standby is promoted, and then continue on its incarnation", async () => {
  const primary = await server();
  const dibs = await open(primary.url);
  onTestFinished(() => dibs.close());
  const queue = dibs.queue<number>("work");
  await queue.add(1);
  const [former] = await queue.claim();
  const lifeOf = async (): Promise<string> => {
    const client = new Client({ connectionString: primary.url });
    await client.connect();
    const { rows } = await client.query<{ token: string }>(INCARNATION);
    await client.end();
    return rows[0]!.token;
  };
  const before = await lifeOf();
  await primary.becomeStandby();
  await primary.stop();
  await primary.restart();
  const adding = queue.add(2);
  expect(await Promise.race([adding, sleep(300, "waits")])).toBe("waits");
  const admin = new Client({ connectionString: primary.url });
  await admin.connect();
  onTestFinished(() => admin.end());
  await admin.query(`SELECT pg_promote()`);
  await adding;
  // Transaction numbers of the former primary mean nothing on this server.
  expect(await lifeOf()).not.toBe(before);
  const claims = await queue.claim({ max: 5 });
  expect(claims.map((claim) => claim.data)).toEqual([2]);
  // The standby may not know the last fences that the primary gave out.
  expect(claims[0]!.fence).toBeGreaterThan(former!.fence + 1_000_000);
});

test("a connection to a standby that refuses LISTEN is closed each time", async () => {
  const primary = await server();
  const dibs = await open(primary.url);
  onTestFinished(() => dibs.close());
  await dibs.queue<number>("work").add(1);
  await primary.becomeStandby();
  await primary.stop();
  await primary.restart();
  const refusals = (): number =>
    readFileSync(join(primary.folder, "log"), "utf8").split("cannot execute LISTEN during recovery").length -
    1;
  while (refusals() < 4) await sleep(20);
  const admin = new Client({ connectionString: primary.url });
  await admin.connect();
  onTestFinished(() => admin.end());
  const listening = `SELECT 1 FROM pg_stat_activity WHERE application_name = 'dibs' AND query LIKE 'LISTEN%'`;
  // The last connection may still be closing.
  expect((await admin.query(listening)).rowCount).toBeLessThan(2);
}, 60_000);
