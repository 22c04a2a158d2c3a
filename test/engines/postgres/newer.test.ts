// A newer dibs upgrades the schema while older processes work.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import type { DibsEvent } from "../../../src/core/event/events.ts";
import type { ClaimOutcome } from "../../../src/engine/claim-request.ts";
import { latestVersion, MIGRATIONS, needed } from "../../../src/engines/postgres/schema/migrations.ts";
import { PostgresStore } from "../../../src/engines/postgres/batch/store.ts";
import type { Dibs } from "../../../src/index.ts";
import { connect, type Ground, ground } from "./kit.ts";

const NEXT = latestVersion() + 1;

/** Opens the store as a newer version of dibs would, which has these additional steps. Closed when the test is over. */
async function openNewer({ url, schema }: Ground, ...steps: string[]): Promise<Dibs> {
  vi.resetModules();
  const { MIGRATIONS: known } = await import("../../../src/engines/postgres/schema/migrations.ts");
  expect(known).not.toBe(MIGRATIONS);
  (known as string[]).push(...steps);
  const { open } = await import("../../../src/index.ts");
  const dibs = await open(url, { schema });
  onTestFinished(() => dibs.close());
  // Stores that are opened from now on are of the old version.
  vi.resetModules();
  return dibs;
}

/** A new column in each table, so that each is locked for a moment; another table, and an index. */
async function moreOfEverything({ client, schema }: Ground): Promise<string> {
  const { rows } = await (
    await client()
  ).query<{ name: string }>(`SELECT tablename AS name FROM pg_tables WHERE schemaname = $1`, [schema]);
  expect(rows.length).toBeGreaterThan(20);
  const names = rows.map(({ name }) => name);
  return `
    ${names.map((name) => `ALTER TABLE dibs.${name} ADD COLUMN more_${NEXT} int8 NOT NULL DEFAULT 0;`).join("")}
    CREATE TABLE dibs.novelty (id int8 PRIMARY KEY);
    CREATE INDEX claim_more ON dibs.claim (more_${NEXT}, task);`;
}

interface Job {
  n: number;
}

test("running processes continue through schema steps that they support, and nothing is lost or fails", async () => {
  const place = await ground();
  const [producer, near, far, board] = [
    await place.open(),
    await place.open(),
    await place.open(),
    await place.open(),
  ];
  const policy = { backoff: { type: "fixed", delay: 0 } } as const;
  const limits = {
    ...policy,
    maxConcurrency: 4,
    rateLimit: { max: 100_000, per: "1m" },
    groups: { concurrency: 2 },
  } as const;
  const events: DibsEvent[] = [];
  const following = new AbortController();
  const followed = (async () => {
    for await (const event of board.events({ signal: following.signal })) events.push(event);
  })();
  const runs = new Map<number, number>();
  const workers = [near, far].flatMap((dibs) => [
    dibs.queue<Job>("work", policy).work(({ data: { n }, attempt }) => {
      if (n % 10 === 0 && attempt === 1) throw new Error("at first it fails");
      runs.set(n, (runs.get(n) ?? 0) + 1);
    }),
    dibs.queue<Job>("limited", limits).work(({ data: { n } }) => void runs.set(n, (runs.get(n) ?? 0) + 1)),
  ]);
  await Promise.all(workers.map((worker) => worker.ready));

  const over = new AbortController();
  const caller = await place.client();
  const ids = new Map<string, number>();
  const adding = (async () => {
    for (let n = 0; !over.signal.aborted; n++) {
      const queue = producer.queue<Job>(n % 3 === 0 ? "limited" : "work");
      const options = { ...(n % 2 === 0 && { groupKey: `g${n % 7}` }), ...(n % 5 === 0 && { delay: 5 }) };
      if (n % 8 === 1) {
        await caller.query("BEGIN");
        ids.set((await queue.add({ n }, { ...options, tx: caller })).id, n);
        await caller.query("COMMIT");
      } else ids.set((await queue.add({ n }, options)).id, n);
      if (n % 20 === 0) await queue.stats();
    }
  })();
  while (runs.size < 50) await sleep(5);
  const newer = await openNewer(place, await moreOfEverything(place));
  const sizeThen = runs.size;
  // The newer process works at the same time.
  ids.set((await newer.queue<Job>("work").add({ n: -1 })).id, -1);
  while (runs.size < sizeThen + 50) await sleep(5);
  over.abort();
  await adding;
  await Promise.all([...ids.keys()].map((id) => producer.task(id).result({ timeout: "20s" })));

  expect([...ids.values()].filter((n) => runs.get(n) !== 1)).toEqual([]);
  const doneOf = (): number => events.filter(({ type }) => type === "task.done").length;
  await expect.poll(doneOf).toBe(ids.size);
  expect(events.filter(({ type }) => type === "gap")).toEqual([]);
  following.abort();
  await followed;
  await Promise.all(workers.map((worker) => worker.stop()));
  // An old process that is started again can open the store.
  const again = await place.open();
  expect((await again.queue("work").stats()).depth).toMatchObject({ ready: 0, claimed: 0, dead: 0 });
});

test("running processes end with a clear error at a schema step that they do not support", async () => {
  const place = await ground();
  const errors: string[] = [];
  const logger = { warn: () => {}, error: (message: string) => void errors.push(message) };
  const older = await place.open({ logger, poll: 100 });
  const queue = older.queue<number>("work");
  const held = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const worker = queue.work(async () => {
    held.resolve();
    await release.promise;
  });
  await queue.add(1);
  await held.promise;
  const idle = older.queue<number>("idle").work(() => {});
  await idle.ready;
  const followed = (async () => {
    for await (const event of older.events()) void event;
  })().catch((error: unknown) => error);
  const caller = await place.client();
  const nextSession = await place.client();

  const newer = await openNewer(place, `ALTER TABLE dibs.ready RENAME TO line; ${needed(NEXT)}`);
  const words = new RegExp(
    `"${place.schema}" has been brought to version ${NEXT} by a newer dibs.*this process knows ${latestVersion()}.*Restart`,
  );
  const outgrown = { code: "UNSUPPORTED", retryable: false, message: expect.stringMatching(words) };
  await expect(queue.add(2)).rejects.toMatchObject(outgrown);
  await expect(queue.stats()).rejects.toMatchObject(outgrown);
  await expect(queue.claim()).rejects.toMatchObject(outgrown);
  await caller.query("BEGIN");
  await expect(queue.add(3, { tx: caller })).rejects.toMatchObject(outgrown);
  await caller.query("ROLLBACK");
  expect(await followed).toMatchObject(outgrown);
  // Both workers stop by themselves, once: the one that waits for tasks, and the one whose handler ends.
  release.resolve();
  await expect.poll(() => errors.filter((message) => message.includes("stops")).length).toBe(2);
  await Promise.all([worker.stop(), idle.stop()]);
  for (const message of errors) expect(message).toMatch(words);
  expect(errors.length).toBeLessThanOrEqual(4);
  await older.close();
  // Processes that do not know the step have written nothing.
  const { rows } = await nextSession.query(`SELECT count(*)::int4 AS n FROM ${place.schema}.task`);
  expect(rows).toEqual([{ n: 1 }]);
  await expect(place.open()).rejects.toMatchObject({ code: "UNSUPPORTED" });
  await newer.close();
});

test("a schema step waits only for callers' transactions that have used the store", async () => {
  const place = await ground();
  const queue = (await place.open()).queue<number>("work");
  await queue.add(0);
  const caller = await place.client();
  await caller.query("BEGIN");
  await queue.add(1, { tx: caller });
  let isOpen = false;
  const opening = openNewer(place, `CREATE TABLE dibs.novelty (id int8 PRIMARY KEY); ${needed(NEXT)}`).then(
    () => (isOpen = true),
  );
  // The step releases its lock every half second, so that other processes continue.
  for (let n = 2; n < 20; n++) {
    await queue.add(n);
    await sleep(100);
  }
  expect(isOpen).toBe(false);
  await caller.query("COMMIT");
  await opening;
  await expect(queue.add(20)).rejects.toMatchObject({ code: "UNSUPPORTED" });
}, 60_000);

test("a batch that meets a changed table reports the newer schema", async () => {
  const place = await ground();
  await place.engine();
  const store = new PostgresStore(await connect(place), { session: true, durability: "full" });
  const tasks = [{ queue: "work", data: "1" }];
  const { outcomes } = await store.run([
    { verb: "add", tasks },
    { verb: "claim", queues: ["work"], max: 1, worker: "w" },
  ]);
  const { id, fence } = (outcomes[1] as { ok: ClaimOutcome }).ok.tasks[0]!;
  const client = await place.client();
  await client.query(`ALTER TABLE ${place.schema}.gate RENAME TO door`);
  const error = { name: "Error", message: "429", stack: null };
  const hold = { verb: "settle", id, fence, settlement: { kind: "hold", error, delay: 1_000 } } as const;
  await expect(store.run([hold])).rejects.toMatchObject({ code: "42P01" });
  await client.query(`UPDATE ${place.schema}.store SET needs = ${NEXT}`);
  await expect(store.run([hold])).rejects.toMatchObject({ code: "UNSUPPORTED" });
});
