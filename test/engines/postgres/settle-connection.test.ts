import type { Socket } from "node:net";
import type { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import type { Claim, Dibs } from "../../../src/index.ts";
import { ground, named, proxyTo, untilOneWaits } from "./kit.ts";

const MANY = 200;

/** Adds tasks to the queue `work`, and claims them manually in one call. */
async function claimMany(dibs: Dibs): Promise<Claim<number>[]> {
  const queue = dibs.queue<number>("work");
  await queue.addMany(Array.from({ length: MANY }, (_, data) => ({ data })));
  return claimAll(dibs);
}

async function claimAll(dibs: Dibs): Promise<Claim<number>[]> {
  const claims = await dibs.queue<number>("work").claim({ max: MANY });
  expect(claims).toHaveLength(MANY);
  return claims;
}

/** Locks the claims of the queue, so that their acks wait until `release` is called. */
async function lockClaims(client: Client, schema: string): Promise<{ release: () => Promise<void> }> {
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM ${schema}.claim FOR UPDATE`);
  return { release: async () => void (await client.query("COMMIT")) };
}

test("acks in bulk that wait for a lock delay neither an add nor a claim", async () => {
  const { open, client, schema } = await ground();
  const dibs = await open();
  const claims = await claimMany(dibs);
  const [locker, observer] = [await client(), await client()];
  const locks = await lockClaims(locker, schema);
  const acks = claims.map((claim) => claim.ack());
  await untilOneWaits(observer, schema);
  await dibs.queue("work").add(MANY);
  expect(await dibs.queue("work").claim()).toHaveLength(1);
  await locks.release();
  await Promise.all(acks);
  expect((await dibs.queue("work").stats()).depth).toMatchObject({ claimed: 1, done: MANY });
});

test("a read sees the acks in bulk that were called before it", async () => {
  const { open } = await ground();
  const dibs = await open();
  const acks = (await claimMany(dibs)).map((claim) => claim.ack("fine"));
  expect((await dibs.queue("work").stats()).depth).toMatchObject({ claimed: 0, done: MANY });
  await Promise.all(acks);
});

test("acks in bulk keep their order among cancels of the same tasks", async () => {
  const { open } = await ground();
  const dibs = await open();
  const claims = await claimMany(dibs);
  const [before, after] = [dibs.task(claims[0]!.id), dibs.task(claims[1]!.id)];
  const cancelledBefore = before.cancel();
  const acks = claims.map((claim) => claim.ack());
  const cancelledAfter = after.cancel();
  await Promise.all([cancelledBefore, cancelledAfter, ...acks]);
  expect((await before.info()).state).toBe("cancelled");
  expect((await after.info()).state).toBe("done");
});

test("a claim finds the next tasks of groups whose heads were acked in bulk just before it", async () => {
  const { open } = await ground();
  const dibs = await open();
  const queue = dibs.queue<number>("work");
  const groups = Array.from({ length: MANY }, (_, i) => `g${i}`);
  await queue.addMany(groups.map((groupKey, data) => ({ data, groupKey, idempotencyKey: `k${data}` })));
  await queue.addMany(groups.map((groupKey, data) => ({ data: MANY + data, groupKey })));
  const acks = (await claimAll(dibs)).map((claim) => claim.ack());
  await Promise.all([...acks, ...(await claimAll(dibs)).map((claim) => claim.ack())]);
  expect((await queue.stats()).depth).toMatchObject({ waiting: 0, claimed: 0, done: 2 * MANY });
  expect((await queue.add(0, { idempotencyKey: "k7" })).existing).toBe(true);
});

test("a lost claim among acks in bulk is refused, and the others are done", async () => {
  const { open } = await ground();
  const [dibs, other] = [await open(), await open()];
  const claims = await claimMany(dibs);
  const lost = claims[3]!;
  await lost.release();
  const [again] = await other.queue("work").claim();
  const settled = await Promise.allSettled(claims.map((claim) => claim.ack()));
  expect(settled.flatMap(({ status }, i) => (status === "rejected" ? [i] : []))).toEqual([3]);
  await again!.ack();
  expect((await dibs.queue("work").stats()).depth).toMatchObject({ claimed: 0, done: MANY });
});

test("acks in bulk are repeated when their connection ends before the commit", async () => {
  const { url, open, client, schema } = await ground();
  const dibs = await open({}, named(url, schema));
  const claims = await claimMany(dibs);
  const [locker, admin] = [await client(), await client()];
  const locks = await lockClaims(locker, schema);
  const acks = claims.map((claim) => claim.ack());
  await untilOneWaits(admin, schema);
  const ended = await admin.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`,
    [schema],
  );
  expect(ended.rowCount).toBe(1);
  await locks.release();
  await Promise.all(acks);
  expect((await dibs.queue("work").stats()).depth).toMatchObject({ claimed: 0, done: MANY });
});

/** True for the commit of acks, which may follow that of a floor's maintenance on another connection. */
function commitsAcks(): (sent: Buffer, client: Socket) => boolean {
  const acking = new Set<Socket>();
  return (sent, client) => {
    if (/INSERT INTO "\w+"\.ended\b/.test(sent.toString("latin1"))) acking.add(client);
    return acking.has(client) && hasCommit(sent);
  };
}

/** `READ COMMITTED` is part of every begin. */
function hasCommit(sent: Buffer): boolean {
  return /COMMIT(?!TED)/.test(sent.toString());
}

function okOf<T>(outcome: { ok: T } | { refused: unknown }): T {
  if ("refused" in outcome) throw new Error(`refused: ${JSON.stringify(outcome.refused)}`);
  return outcome.ok;
}

test("acks in bulk whose commit lost its answer count once", async () => {
  const { url, open } = await ground();
  const cut = await proxyTo(url);
  const dibs = await open({}, cut.url);
  const claims = await claimMany(dibs);
  const isCut = Promise.withResolvers<void>();
  cut.proxy.cutAfter = (sent) => {
    if (!hasCommit(sent)) return false;
    isCut.resolve();
    return true;
  };
  const acks = claims.map((claim) => claim.ack());
  await isCut.promise;
  cut.proxy.cutAfter = undefined;
  cut.proxy.mend();
  await Promise.all(acks);
  expect((await dibs.queue("work").stats()).depth).toMatchObject({ claimed: 0, done: MANY });
});

test("acks in bulk whose outcome cannot be read are OUTCOME_UNKNOWN, and are done", async () => {
  const { url, open, schema } = await ground();
  const direct = await open();
  const cut = await proxyTo(url);
  const engine = await openPostgres({ url: cut.url, schema, patience: 3_000 });
  onTestFinished(() => engine.close());
  await direct.queue("work").addMany(Array.from({ length: MANY }, (_, data) => ({ data })));
  const [claimed] = await engine.execute([
    { verb: "claim", queues: ["work"], max: MANY, worker: "w", lease: 60_000 },
  ]);
  const { tasks } = okOf(claimed);
  expect(tasks).toHaveLength(MANY);
  cut.proxy.cutAfter = commitsAcks();
  const acks = engine.execute(
    tasks.map(({ id, fence }) => ({
      verb: "settle" as const,
      id,
      fence,
      settlement: { kind: "done" as const, result: null },
    })),
  );
  await expect(acks).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN", retryable: true });
  cut.proxy.cutAfter = undefined;
  cut.proxy.mend();
  expect((await direct.queue("work").stats()).depth).toMatchObject({ claimed: 0, done: MANY });
});
