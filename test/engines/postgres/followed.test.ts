import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import type { Op } from "../../../src/engine/engine.ts";
import { PostgresStore } from "../../../src/engines/postgres/batch/store.ts";
import { connect, ground } from "./kit.ts";

/** Batches on one connection: the next batch is sent while the commit of the one before it is in progress. */

async function setUp() {
  const place = await ground();
  await place.engine();
  const link = await connect(place);
  const store = new PostgresStore(link, { session: true, durability: "full" });
  return { place, link, store };
}

function add(data: string): Op<"add"> {
  return { verb: "add", tasks: [{ queue: "work", data }] };
}

test("no batch is sent behind a refused claim whose statements are not all answered", async () => {
  const { link, store } = await setUp();
  const rateLimit = [{ max: 5, per: 3_600_000, unit: null, pace: false }];
  await store.run([{ verb: "declare", queue: "work", policy: { rateLimit } }, add("1")]);
  await store.run([{ verb: "housekeep" }]);
  const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const query = link.query.bind(link);
  link.query = async (sql, values) => {
    const isHorizon = sql.includes("min(heartbeat_at + lease)");
    if (isHorizon) asked.resolve();
    const answered = await query(sql, values);
    if (isHorizon) await answer.promise;
    return answered;
  };
  const course: string[] = [];
  const claim: Op<"claim"> = { verb: "claim", queues: ["work"], max: 1, worker: "w", session: 999_999 };
  const claiming = store.run([claim], { onSent: () => course.push("followed") });
  await asked.promise;
  // By then the server has answered that the session does not exist.
  for (let i = 0; i < 2; i++) await link.exec("SELECT 1");
  course.push("answered");
  answer.resolve();
  expect((await claiming).outcomes).toMatchObject([{ refused: { code: "CLAIM_LOST" } }]);
  expect(course).toEqual(["answered", "followed"]);
});

test("a batch whose commit fails is not repeated inside the next transaction", async () => {
  const { place, store } = await setUp();
  const { schema } = place;
  const client = await place.client();
  await store.run([add("0")]);
  await client.query(`
    CREATE SEQUENCE ${schema}.refused;
    CREATE FUNCTION ${schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM nextval('${schema}.refused');
      RAISE EXCEPTION 'somebody was faster' USING ERRCODE = '40001';
    END $$;
    CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON ${schema}.task DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW WHEN (NEW.data = 'bad') EXECUTE FUNCTION ${schema}.refuse()`);
  const sent = Promise.withResolvers<void>();
  const first = store.run([add("bad")], { onSent: sent.resolve });
  const failure = first.catch((error: unknown) => error);
  await sent.promise;
  const next = store.run([add("good"), { verb: "claim", queues: ["work"], max: 9, worker: "w" }]);
  expect(await failure).toMatchObject({ code: "40001" });
  const [, claimed] = (await next).outcomes;
  expect((claimed as { ok: { tasks: { data: string }[] } }).ok.tasks.map(({ data }) => data)).toEqual([
    "0",
    "good",
  ]);
  const { rows } = await client.query(`SELECT last_value::int4 AS times FROM ${schema}.refused`);
  expect(rows).toEqual([{ times: 1 }]);
});

test("a commit is executed while the next batch is encoded", async () => {
  const { place, store } = await setUp();
  await store.run([add("0")]);
  const look = `
    import { Client } from "pg";
    const client = new Client({ connectionString: process.argv[1] });
    await client.connect();
    const isThere = "SELECT 1 FROM ${place.schema}.task WHERE data = '1'";
    while ((await client.query(isThere)).rowCount === 0);
    await client.end();`;
  // Blocks this process until another process has seen the task.
  const onSent = (): void =>
    void execFileSync(process.execPath, ["--input-type=module", "-e", look, place.url], { timeout: 20_000 });
  await store.run([add("1")], { onSent });
});
