import { Client } from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { open } from "../../../src/index.ts";
import { LIBRARIES } from "../../postgres/libraries.ts";
import { freshDatabase } from "../../postgres/shared.ts";
import { ground } from "./kit.ts";

/** Values that cannot be used as `tx`, and the errors about them. */

async function setUp() {
  const place = await ground();
  const dibs = await place.open();
  const queue = dibs.queue<number>("work");
  await queue.add(0);
  const [claim] = await queue.claim();
  return { place, dibs, queue, claim: claim!, client: await place.client() };
}

async function begun(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("BEGIN");
  return client;
}

function saying(code: string, ...words: string[]) {
  return { code, message: expect.stringMatching(new RegExp(words.join(".*"), "s")) };
}

test("a transaction of another database with its own store is refused, and nothing is written there", async () => {
  const [here, there] = [await freshDatabase(onTestFinished), await freshDatabase(onTestFinished)];
  const [mine, theirs] = [await open(here), await open(there)];
  onTestFinished(async () => void (await Promise.all([mine.close(), theirs.close()])));
  await theirs.queue("work").add(0);
  await mine.queue("work").add(1);
  const [claim] = await mine.queue("work").claim();
  const tx = await begun(there);
  const refusal = saying("INVALID", "another store", `schema "dibs" at .*${new URL(here).pathname}`, "Give");
  await expect(mine.queue("work").add(2, { tx })).rejects.toMatchObject(refusal);
  await expect(mine.topic("a").publish(2, { tx })).rejects.toMatchObject(refusal);
  await expect(claim!.ack(undefined, { tx })).rejects.toMatchObject(refusal);
  await tx.query("COMMIT");
  expect((await theirs.queue("work").stats()).depth.ready).toBe(1);
  await claim!.ack();
});

test("a transaction on a copy of the store, in another database or incarnation, is refused", async () => {
  const here = await freshDatabase(onTestFinished);
  const name = new URL(here).pathname.slice(1);
  await (await open(here)).close();
  const admin = new Client({ connectionString: new URL("/postgres", here).href });
  await admin.connect();
  onTestFinished(() => admin.end());
  await admin.query(`CREATE DATABASE ${name}_copy TEMPLATE ${name}`);
  onTestFinished(async () => void (await admin.query(`DROP DATABASE ${name}_copy WITH (FORCE)`)));
  const mine = await open(here);
  onTestFinished(() => mine.close());
  const queue = mine.queue("work");
  const copied = await begun(new URL(`/${name}_copy`, here).href);
  await expect(queue.add(1, { tx: copied })).rejects.toMatchObject(saying("INVALID", "a copy of this store"));

  // Plays a second server on a copy of the data: unlogged tables are empty there.
  const beside = await begun(here);
  await beside.query("UPDATE dibs.incarnation SET token = 'another'");
  await expect(queue.add(1, { tx: beside })).rejects.toMatchObject(saying("INVALID", "a copy of this store"));
});

test("a store that was created again, or whose server has crashed, is accepted", async () => {
  const { place, queue, client } = await setUp();
  await client.query("BEGIN");
  await queue.add(1, { tx: client });
  await client.query("COMMIT");
  await client.query(`UPDATE ${place.schema}.incarnation SET token = 'another'`);
  await client.query("BEGIN");
  await queue.add(2, { tx: client });
  await client.query("COMMIT");
  expect((await queue.stats()).depth.ready).toBe(2);
});

test("a transaction of a database without a store is refused with that reason", async () => {
  const { place, queue } = await setUp();
  const tx = await begun(await freshDatabase(onTestFinished));
  const words = ["without this store", "does not exist", `schema "${place.schema}" at `, "roll it back"];
  await expect(queue.add(1, { tx })).rejects.toMatchObject(saying("INVALID", ...words));
});

test("a value that is not a client is refused by name", async () => {
  const { queue } = await setUp();
  const given: [unknown, string][] = [
    [null, "got null\\."],
    ["BEGIN", 'got "BEGIN"\\.'],
    [{ query: {} }, "got an object without a function query\\."],
    [() => {}, "got a function without a function query\\."],
    [new Map(), "got an instance of Map without a function query\\."],
  ];
  for (const [tx, words] of given) {
    const refusal = saying("INVALID", "query\\(sql, params\\)", words, "\\{ rows \\}", "guide");
    await expect(queue.add(1, { tx })).rejects.toMatchObject(refusal);
  }
});

test("an incomplete adapter is refused with what it must return", async () => {
  const { queue, claim, client } = await setUp();
  await client.query("BEGIN");
  const ask = (sql: string, params: unknown[]) => client.query(sql, params);
  const adapters: [(sql: string, params: unknown[]) => unknown, string][] = [
    [(sql, params) => void ask(sql, params), "it answered undefined"],
    [() => null, "it answered null"],
    [async () => ({ rowCount: 1 }), "it answered an object"],
    [async () => 1, "it answered 1"],
    [async () => ({ rows: 1 }), "it answered an object"],
    [async (sql, params) => [(await ask(sql, params)).rows], "got an array of 1"],
    [async () => [undefined], "got undefined"],
    [async () => [{ other: 1 }], "got an object"],
    [(sql) => client.query(sql), "did not understand what query\\(sql, params\\) sent it"],
    [(sql) => client.query(sql, []), "did not understand what query\\(sql, params\\) sent it"],
    [
      (sql, params) => client.query(sql.replaceAll("$", "?"), params),
      "did not understand what query\\(sql, params\\) sent it",
    ],
    [() => (undefined as unknown as { raw: () => void }).raw(), "failed, and not by PostgreSQL .*raw"],
    [() => Promise.reject(new Error("Transaction query already complete")), "already complete"],
    // oxlint-disable-next-line prefer-promise-reject-errors -- somebody does
    [() => Promise.reject(undefined), "failed, and not by PostgreSQL"],
  ];
  for (const [query, words] of adapters) {
    await client.query("SAVEPOINT before");
    const refusal = saying("INVALID", words, "query\\(sql, params\\)", "array or as \\{ rows \\}", "guide");
    await expect(queue.add(1, { tx: { query } })).rejects.toMatchObject(refusal);
    await client.query("ROLLBACK TO before");
    await expect(claim.ack(undefined, { tx: { query } })).rejects.toMatchObject(refusal);
    await client.query("ROLLBACK TO before");
  }
  await client.query("COMMIT");
  expect((await queue.stats()).depth).toMatchObject({ ready: 0, claimed: 1 });
});

describe.each(Object.entries(LIBRARIES))("with %s", (_, begin) => {
  const cases: [what: string, prepare: string, words: string[]][] = [
    ["can only read", "SET TRANSACTION READ ONLY", ["can only read", "Begin one that may write"]],
    ["has failed already", "SELECT 1 / 0", ["has failed already", "Roll it back"]],
  ];
  test.each(cases)("a transaction that %s is refused with the reason", async (_what, prepare, words) => {
    const { place, queue, claim } = await setUp();
    for (const call of [
      (tx: unknown) => queue.add(1, { tx }),
      (tx: unknown) => claim.ack(undefined, { tx }),
    ]) {
      const tx = await begin(place.url);
      await Promise.resolve(tx.query(prepare, [])).catch(() => {});
      await expect(call(tx)).rejects.toMatchObject(saying("INVALID", ...words));
      await tx.rollback();
    }
    expect((await queue.stats()).depth).toMatchObject({ ready: 0, claimed: 1 });
  });

  test("errors of PostgreSQL in a caller's transaction are explained", async () => {
    const { place, queue, client } = await setUp();
    await client.query("BEGIN");
    await queue.add(1, { tx: client, idempotencyKey: "k" });
    const tx = await begin(place.url);
    await tx.query("SET LOCAL lock_timeout = 1", []);
    await expect(queue.add(2, { tx, idempotencyKey: "k" })).rejects.toMatchObject({
      ...saying("UNAVAILABLE", "lock timeout", "roll it back, and run it again", "lock_timeout"),
      retryable: true,
    });
    await tx.rollback();
    await client.query("COMMIT");
  });
});

test("a conflict that a library reports with its own code is recognised", async () => {
  const { queue } = await setUp();
  const query = () =>
    Promise.reject(Object.assign(new Error("write conflict or a deadlock"), { code: "P2034" }));
  const again = { ...saying("UNAVAILABLE", "write conflict", "run it again"), retryable: true };
  await expect(queue.add(1, { tx: { query } })).rejects.toMatchObject(again);
});

test("errors in a caller's transaction name missing rights and a lost connection", async () => {
  const { place, queue, client } = await setUp();
  const role = `nobody_of_${place.schema}`;
  await client.query(`CREATE ROLE ${role} LOGIN`);
  onTestFinished(async () => void (await client.query(`DROP ROLE ${role}`)));
  const address = new URL(place.url);
  address.username = role;
  const tx = new Client({ connectionString: address.href });
  tx.on("error", () => {});
  await tx.connect();
  await tx.query("BEGIN");
  const denied = {
    ...saying("UNAVAILABLE", "may not do that", "permission denied", "rights"),
    retryable: false,
  };
  await expect(queue.add(1, { tx })).rejects.toMatchObject(denied);
  await tx.end();
  const gone = { ...saying("UNAVAILABLE", "of no use any more", "run it again on another"), retryable: true };
  await expect(queue.add(1, { tx })).rejects.toMatchObject(gone);
});
