import { beforeAll, expect, onTestFinished, test } from "vitest";
import type { ClaimOutcome } from "../../../src/engine/claim-request.ts";
import type { Engine, Op } from "../../../src/engine/engine.ts";
import { IDLE } from "../../../src/engines/postgres/batch/claim-at-once.ts";
import { PostgresStore } from "../../../src/engines/postgres/batch/store.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { connect, proxyTo, untilOneWaits } from "./kit.ts";
import { claimAll, heldBy, joinAs, named, run, setUp } from "./verbs.ts";

const LOCK = 4_712;

beforeAll(() => {
  IDLE.ms = 0;
});

/** A claim that waits, and a store to execute it on. */
async function prepare() {
  const { place, here, there } = await setUp();
  const link = await connect(place);
  const store = new PostgresStore(link, { session: true, durability: "full" });
  // It reads the queues.
  await store.run([{ verb: "claim", queues: ["empty"], max: 1, worker: "w" }]);
  const session = await joinAs(here, "w");
  const op: Op<"claim"> = {
    verb: "claim",
    ...{ queues: ["work"], max: 2, worker: "w", session, waitingId: 1 },
  };
  const claim = async (): Promise<ClaimOutcome> => {
    const { outcomes } = await store.run([op]);
    return (outcomes[0] as { ok: ClaimOutcome }).ok;
  };
  /** Whether it was tried with a statement that is a whole transaction, and whether it was executed in the usual way. */
  const ways = () => {
    const claims = [...link.statements].filter(
      (sql) => sql.includes("WITH calm AS") && sql.includes("held AS"),
    );
    return {
      atOnce: claims.some((sql) => sql.includes("counted AS")),
      usual: claims.some((sql) => !sql.includes("counted AS")),
    };
  };
  return { place, here, there, store, session, op, claim, ways };
}

function dataOf({ tasks }: ClaimOutcome): unknown[] {
  return tasks.map(({ data }) => data);
}

test("a waiting claim is one statement, and is counted", async () => {
  const { here, claim, ways } = await prepare();
  expect(dataOf(await claim())).toEqual([]);
  await run(here, { verb: "add", tasks: [{ ...named("1"), headers: { a: "b" }, priority: 3 }, named("2")] });
  const { tasks, policies, more } = await claim();
  expect(tasks).toMatchObject([
    { data: "1", headers: { a: "b" }, priority: 3, attempt: 1 },
    { data: "2", headers: {}, priority: 0, attempt: 1 },
  ]);
  expect(policies).toHaveProperty("work");
  expect(more).toBe(false);
  expect(ways()).toEqual({ atOnce: true, usual: false });
  const { depth, waitTime } = await run(here, { verb: "stats", queue: "work" });
  expect(depth).toMatchObject({ ready: 0, claimed: 2 });
  expect(waitTime).not.toBeNull();
});

test("a claim that does not wait is executed in the usual way", async () => {
  const { here, store, op, ways } = await prepare();
  await run(here, { verb: "add", tasks: [named("1")] });
  const { waitingId: _, ...calm } = op;
  await store.run([calm]);
  expect(ways()).toEqual({ atOnce: false, usual: true });
});

test.each<[what: string, first: (engine: Engine) => Promise<unknown>]>([
  [
    "a task has a time-to-live",
    (engine) => run(engine, { verb: "add", tasks: [{ ...named("0"), ttl: 60_000 }] }),
  ],
  ["a task is due", (engine) => run(engine, { verb: "add", tasks: [{ ...named("0"), delay: 1 }] })],
  ["a process listens", (engine) => run(engine, { verb: "listen", listener: "me", after: null, limit: 1 })],
  ["a queue was added", (engine) => run(engine, { verb: "add", tasks: [{ queue: "new", data: "0" }] })],
  [
    "the queue has a limit",
    (engine) => run(engine, { verb: "declare", queue: "work", policy: { maxConcurrency: 5 } }),
  ],
])("a waiting claim is executed in the usual way where %s", async (_, first) => {
  const { here, claim, ways } = await prepare();
  await first(here);
  await run(here, { verb: "add", tasks: [named("1")] });
  await expect.poll(async () => dataOf(await claim())).toContain("1");
  expect(ways()).toMatchObject({ usual: true });
});

test("a waiting claim of a session that has ended is refused", async () => {
  const { here, store, session, op } = await prepare();
  await run(here, { verb: "add", tasks: [named("1")] });
  await run(here, { verb: "leave", session });
  expect((await store.run([op])).outcomes).toMatchObject([{ refused: { code: "CLAIM_LOST" } }]);
  expect(await claimAll(here)).toHaveLength(1);
});

test("a waiting claim takes no more than fits into one answer, and the next one takes the rest", async () => {
  const { here, claim, op } = await prepare();
  op.max = 100;
  const count = 40;
  await run(here, { verb: "add", tasks: Array.from({ length: count }, (_, i) => named(`${i}`)) });
  const first = await claim();
  expect(first.more).toBe(true);
  const second = await claim();
  expect([...dataOf(first), ...dataOf(second)]).toEqual(Array.from({ length: count }, (_, i) => `${i}`));
});

test("a waiting claim returns payloads that are larger than the queue takes by now", async () => {
  const { here, claim, op } = await prepare();
  op.max = 100;
  const data = JSON.stringify("x".repeat(200_000));
  await run(here, { verb: "add", tasks: [named(data)] });
  await run(here, { verb: "declare", queue: "work", policy: { maxPayload: 10 } });
  await claim();
  await run(here, { verb: "add", tasks: [named("1")] });
  expect(await claimAll(here)).toHaveLength(1);
});

test("the claim whose answer was lost is unknown, and its tasks return when the session reports what it holds", async () => {
  const { place, here, op, session } = await prepare();
  const { proxy, url } = await proxyTo(place.url);
  const far = await openPostgres({ url, schema: place.schema });
  onTestFinished(() => far.close());
  await claimAll(far, { queues: ["empty"] });
  await run(here, { verb: "add", tasks: [named("1")] });
  proxy.cutAfter = (sent) => sent.includes("COMMIT");
  const claiming = far.execute([op]);
  await expect(claiming).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
  proxy.cutAfter = undefined;
  proxy.mend();
  await run(far, { verb: "reconcile", session, fences: [] });
  expect(await claimAll(far)).toMatchObject([{ data: "1", attempt: 1 }]);
});

test("a claim whose statement was answered before the connection was lost keeps its tasks", async () => {
  const { place, here, op } = await prepare();
  const { schema } = place;
  const { proxy, url } = await proxyTo(place.url);
  const far = await openPostgres({ url, schema });
  onTestFinished(() => far.close());
  await claimAll(far, { queues: ["empty"] });
  const client = await place.client();
  await client.query(`
    CREATE FUNCTION ${schema}.pause() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_advisory_xact_lock(${LOCK}); RETURN NEW; END $$;
    CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON ${schema}.claim DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION ${schema}.pause()`);
  await run(here, { verb: "add", tasks: [named("1")] });
  await client.query(`SELECT pg_advisory_lock(${LOCK})`);
  const claiming = far.execute([op]);
  await untilOneWaits(client, "COMMIT");
  proxy.cut();
  proxy.mend();
  await client.query(`SELECT pg_advisory_unlock(${LOCK})`);
  const [outcome] = await claiming;
  const { tasks } = (outcome as { ok: ClaimOutcome }).ok;
  expect(tasks).toMatchObject([{ data: "1" }]);
  expect(await run(far, { verb: "extend", ...heldBy(tasks[0]!), lease: 60_000 })).toMatchObject({
    cancelRequested: false,
  });
});
