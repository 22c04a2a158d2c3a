// What a store does while its server is silent. The tests wait for fixed times of up to 16 seconds, so they run at the
// same time.

import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { createBroker } from "../../../src/broker/broker.ts";
import { systemClock } from "../../../src/engine/system-clock.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { type AddOptions, open } from "../../../src/index.ts";
import { startPgBouncer, whyNoPgBouncer } from "../../postgres/pgbouncer.ts";
import { PostgresServer, QUICK } from "../../postgres/server.ts";
import { freshDatabase } from "../../postgres/shared.ts";
import { ground, named, proxyTo } from "./kit.ts";

const why = await whyNoPgBouncer();

/** How long the call took until it failed because the store cannot be reached. */
async function waitFor(call: Promise<unknown>, askedAt: number): Promise<number> {
  await expect(call).rejects.toMatchObject({ code: "UNAVAILABLE", retryable: true });
  return performance.now() - askedAt;
}

const HALF_SENT: [what: string, data: unknown, options: AddOptions][] = [
  ["that was about to add", 3, { idempotencyKey: "three" }],
  ["of whose add only the beginning got there", "x".repeat(200_000), {}],
];

describe.concurrent("while a server is silent:", () => {
  test("a program that is asked to end while the server is away ends soon", async ({ onTestFinished }) => {
    const postgres = await PostgresServer.start({ settings: QUICK });
    onTestFinished(() => postgres.remove());
    const dibs = await open(postgres.url);
    const started = Promise.withResolvers<void>();
    const worker = dibs.queue<number>("work").work((task) => {
      started.resolve();
      return once(task.signal, "abort");
    });
    await dibs.queue<number>("work").add(1);
    await started.promise;
    await postgres.stop("immediate");
    const asked = performance.now();
    const adding = dibs
      .queue<number>("work")
      .add(2)
      .catch((error: unknown) => error);
    await worker.stop({ timeout: 100 });
    await dibs.close();
    // Without this, its calls would be retried for 15 seconds, one after the other.
    expect(performance.now() - asked).toBeLessThan(13_000);
    await adding;
  });

  test("a call while the server is away fails after its own patience, not after that of earlier calls", async ({
    onTestFinished,
  }) => {
    const { url, schema } = await ground(onTestFinished);
    const cut = await proxyTo(url, onTestFinished);
    const patience = 3_000;
    const engine = await openPostgres({ url: cut.url, schema, patience });
    const port = createBroker(engine, { clock: systemClock });
    onTestFinished(() => port.close());
    await port.add([{ queue: "work", data: "{}" }]);
    cut.proxy.cut();
    const waits: Promise<number>[] = [];
    for (let i = 0; i < 6; i++) {
      const askedAt = performance.now();
      const call = i % 2 === 0 ? port.add([{ queue: "work", data: "{}" }]) : port.stats("work");
      waits.push(waitFor(call, askedAt));
      await sleep(patience / 6);
    }
    // If the calls waited one after the other, the last would wait five times as long as the first.
    for (const waited of await Promise.all(waits)) expect(waited).toBeLessThan(patience * 3);
    cut.proxy.mend();
    await port.add([{ queue: "work", data: "{}" }]);
  });

  test("a worker behind a network that drops everything aborts its handler, loses the task, and its late ack is refused", async ({
    onTestFinished,
  }) => {
    const { url, open: openHere } = await ground(onTestFinished);
    const cut = await proxyTo(url, onTestFinished);
    const far = await openHere({}, cut.url);
    const near = await openHere();
    const policy = { lease: 3_000, elsewhere: 0 } as const;
    const queue = near.queue<string>("work", policy);
    const held = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<unknown>();
    const mended = Promise.withResolvers<void>();
    const late = Promise.withResolvers<unknown>();
    const worker = far.queue<string>("work", policy).work(async (task) => {
      if (task.data !== "first") return "by the one that is back";
      task.signal.addEventListener("abort", () => aborted.resolve(task.signal.reason));
      held.resolve();
      await mended.promise;
      await task.ack("too late").then(() => late.resolve("accepted"), late.resolve);
      return "by the one that was cut off";
    });
    const task = await queue.add("first");
    await held.promise;
    cut.proxy.mute();
    // Only the worker's own clock shows this: the connection is still cut.
    expect(await aborted.promise).toMatchObject({ code: "CLAIM_LOST" });
    const other = queue.work(() => "by another");
    expect(await task.result({ timeout: "10s" })).toBe("by another");
    await other.stop();
    cut.proxy.mend();
    mended.resolve();
    expect(await late.promise).toMatchObject({ code: "CLAIM_LOST" });
    // Its connections are dead without an error. The store notices that, and opens new ones.
    const next = await queue.add("second");
    expect(await next.result({ timeout: "50s" })).toBe("by the one that is back");
    await worker.stop();
    expect((await task.info()).result).toBe("by another");
    expect(await task.history()).toMatchObject([{ outcome: "lost" }, { outcome: "done" }]);
  });

  test("an answer that waits for another transaction's lock is awaited", async ({ onTestFinished }) => {
    const { open: openHere, client, schema } = await ground(onTestFinished);
    const dibs = await openHere();
    const queue = dibs.queue<number>("work");
    await queue.add(1);
    const blocker = await client();
    await blocker.query(`BEGIN; LOCK TABLE ${schema}.task IN ACCESS EXCLUSIVE MODE`);
    const adding = queue.add(2);
    // Longer than the silence after which the server is asked.
    await sleep(16_000);
    await blocker.query("ROLLBACK");
    await adding;
    expect((await queue.stats()).depth.ready).toBe(2);
  });

  test.for(HALF_SENT)(
    "a transaction of a process %s when its machine was gone is ended after ten seconds, and blocks others for no longer",
    // Tests that run side by side poll with their own `expect`: the global one belongs to none of them.
    async ([, data, options], { onTestFinished, expect }) => {
      const { url, open: openHere, client, schema } = await ground(onTestFinished);
      const near = await openHere();
      await near.queue("work").add(1);
      const cut = await proxyTo(url, onTestFinished);
      const far = await openHere({}, named(cut.url, schema));
      await far.queue("work").add(2);
      const sent = Promise.withResolvers<void>();
      cut.proxy.cutAfter = (message) => {
        // The server gets the BEGIN, and nothing after it.
        if (!message.includes("BEGIN ISOLATION LEVEL READ COMMITTED")) return false;
        cut.proxy.mute();
        sent.resolve();
        return false;
      };
      const adding = far
        .queue("work")
        .add(data, options)
        .catch(() => {});
      await sent.promise;
      const admin = await client();
      const hanging = `SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND state = 'idle in transaction'`;
      await expect.poll(async () => (await admin.query(hanging, [schema])).rowCount).toBe(1);
      const from = performance.now();
      // Pausing needs an exclusive batch, so it waits for the open transaction.
      await near.queue("work").pause();
      expect(performance.now() - from).toBeGreaterThan(5_000);
      expect((await admin.query(hanging, [schema])).rowCount).toBe(0);
      cut.proxy.cutAfter = undefined;
      cut.proxy.mend();
      await adding;
    },
  );

  test.skipIf(why)(
    `PgBouncer that lends a connection for the whole session is as good as none${why ? `; it is not here: ${why}` : ""}`,
    async ({ onTestFinished, expect }) => {
      const url = await freshDatabase(onTestFinished);
      const pooled = await startPgBouncer(url, onTestFinished, { mode: "session", size: 20 });
      const [one, other] = [await open(pooled), await open(pooled)];
      onTestFinished(async () => void (await Promise.all([one.close(), other.close()])));
      const worker = one.queue<number, number>("work").work((task) => task.data + 1);
      expect(await (await other.queue<number, number>("work").add(1)).result({ timeout: "20s" })).toBe(2);
      await worker.stop();
      // An answer that waits for a lock is awaited: the store asks the server by the number of the server's process.
      const blocker = new Client({ connectionString: url });
      await blocker.connect();
      onTestFinished(() => blocker.end());
      await blocker.query(`BEGIN; LOCK TABLE dibs.task IN ACCESS EXCLUSIVE MODE`);
      const waiting = `SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'dibs.task'::regclass`;
      const adding = other.queue<number>("work").add(2);
      await expect.poll(async () => (await blocker.query(waiting)).rowCount).toBe(1);
      const before = (await blocker.query(waiting)).rows;
      // Longer than the silence after which the server is asked.
      await sleep(16_000);
      expect((await blocker.query(waiting)).rows).toEqual(before);
      await blocker.query("ROLLBACK");
      await adding;
    },
  );
});
