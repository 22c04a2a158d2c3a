// Every statement of the guide runs against the real schema, on a store that has a task in each state it asks for.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, afterAll, expect, test } from "vitest";
import type { Client } from "pg";
import { type CleanUp, ground } from "../engines/postgres/kit.ts";

const guide = readFileSync(join(import.meta.dirname, "../../docs/guides/sql-for-administrators.md"), "utf8");

type Row = Record<string, unknown>;

/** What each statement must find, by its heading. */
const FINDS: Record<string, (rows: Row[]) => void> = {
  "Depth by queue": (rows) =>
    expect(rows).toEqual([
      counts({ name: "emails", ready: "2", scheduled: "1", claimed: "1", done: "1", dead: "1" }),
      counts({ name: "orders", ready: "1", waiting: "1" }),
      counts({ name: "idle" }),
    ]),
  "The oldest task that waits": (rows) =>
    expect(rows).toMatchObject([{ name: "emails" }, { name: "orders" }]),
  "Dead letters by error": (rows) =>
    expect(rows).toMatchObject([{ name: "emails", error: "Error", example: "no such box", tasks: "1" }]),
  "The longest claims": (rows) =>
    expect(rows).toMatchObject([{ name: "emails", worker: "ada", attempt: 1, silent: null }]),
  "Live workers": (rows) => expect(rows).toMatchObject([{ claims: "0" }]),
  "What is due next": (rows) => expect(rows).toMatchObject([{ name: "emails", tasks: "1" }]),
  "Sizes of the tables": (rows) =>
    expect(rows.map(({ table }) => table)).toEqual(expect.arrayContaining(["task", "ready", "ended"])),
  "Dead rows and vacuum": (rows) =>
    expect(rows.find(({ table }) => table === "ready")).toMatchObject({
      reloptions: expect.arrayContaining(["autovacuum_vacuum_scale_factor=0.02"]) as unknown,
    }),
  "What keeps rows dead": (rows) => expect(rows.length).toBeGreaterThan(0),
  "Connections of dibs, and what they wait for": (rows) => expect(rows.length).toBeGreaterThan(0),
};

function counts(given: Row): Row {
  return {
    paused: false,
    ready: "0",
    waiting: "0",
    scheduled: "0",
    claimed: "0",
    done: "0",
    dead: "0",
    ...given,
  };
}

const statements = guide.split("\n## ").flatMap((section) => {
  const heading = section.split("\n")[0]!;
  return [...section.matchAll(/^```sql\n([^]*?)^```$/gm)].map((match) => ({ heading, sql: match[1]! }));
});

const undo: Parameters<CleanUp>[0][] = [];
let admin: Client;
let schema: string;

beforeAll(async () => {
  const store = await ground((step) => void undo.unshift(step));
  schema = store.schema;
  const dibs = await store.open();
  const emails = dibs.queue<string>("emails");
  const orders = dibs.queue<string>("orders");
  await emails.addMany([{ data: "dies" }, { data: "ends" }, { data: "is held" }]);
  const [dies, ends, held] = await emails.claim({ max: 3, worker: "ada" });
  await dies!.reject(new Error("no such box"));
  await ends!.ack("sent");
  expect(held!.data).toBe("is held");
  await emails.addMany([{ data: "waits" }, { data: "waits" }, { data: "is delayed", delay: "1h" }]);
  await orders.addMany(["first", "second"].map((data) => ({ data, groupKey: "ada" })));
  await dibs.work(["idle"], () => null).ready;
  admin = await store.client();
  const reader = await store.client();
  await reader.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  await reader.query("SELECT now()");
});

afterAll(async () => {
  for (const step of undo) await step();
});

test("the guide has a statement for each heading that is tested here, and no other", () => {
  expect([...new Set(statements.map(({ heading }) => heading))]).toEqual(Object.keys(FINDS));
});

test.each(statements)("the statement under $heading finds what is there", async ({ heading, sql }) => {
  const ours = sql
    .replaceAll("dibs.", `${schema}.`)
    .replaceAll("'dibs'::regnamespace", `'${schema}'::regnamespace`);
  const { rows } = await admin.query<Row>(ours.replaceAll("schemaname = 'dibs'", `schemaname = '${schema}'`));
  FINDS[heading]!(rows);
});
