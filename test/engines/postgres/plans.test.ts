import type { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { Engine, Op } from "../../../src/engine/engine.ts";
import { checkFloors, raiseFloors } from "../../../src/engines/postgres/line/floors.ts";
import type { Connection } from "../../../src/engines/postgres/connection/connection.ts";
import { PostgresStore } from "../../../src/engines/postgres/batch/store.ts";
import { inSchema } from "../../../src/engines/postgres/statements/text.ts";
import { clockIn, setClock } from "../../postgres/moved-clock.ts";
import { dropSchema } from "../../postgres/shared.ts";
import { newTask, QUEUE, worker } from "../sqlite/kit.ts";
import { tour } from "../tour.ts";
import { asker, fill } from "./fill.ts";
import { connect, ground } from "./kit.ts";
import { copiesPayloads, costsOf, type Indexes, type Node, readIndexes, readTables, wayOf } from "./plan.ts";

/** Statements that may read more of a table than they need, and why. */
const EXCEPTIONS: [table: string, sql: RegExp, reason: string][] = [
  [
    "claim",
    /claim\.?\b.*session/s,
    "the claims in flight are few, and an index by session would slow every claim",
  ],
  ["claim", /AND counted\)?/, "the claims in flight of a queue that limits how many these are"],
  ["claim", /SET counted = true/, "the claims in flight of a queue that gets its first limits"],
  ["claim", /SELECT task FROM dibs\.claim WHERE queue = \$1 LIMIT/, "drop looks for claims in flight"],
  ["delta", /./s, "housekeeping folds them, and so there are few"],
  [
    "ready_elsewhere",
    /min\(task\) FROM dibs\.ready_elsewhere/,
    "stats looks for the oldest of those that are kept from a worker",
  ],
  [
    "ready_sticky",
    /min\(task\) FROM dibs\.ready_sticky/,
    "stats looks for the oldest of those that are kept for a worker",
  ],
  ["run", /GROUP BY queue/, "prune counts the ended runs, which are few beside the tasks"],
  ["idempotency", /DELETE FROM dibs\.idempotency WHERE queue/, "drop"],
  ["lane", /DELETE FROM dibs\.lane WHERE queue/, "drop"],
  ["ready", /SET group_key = named\.group_key/, "a queue gets its first limits"],
  ["ready_elsewhere", /SET group_key = named\.group_key/, "a queue gets its first limits"],
  [
    "lane",
    /ORDER BY wake_at LIMIT 1/,
    "past the lanes of other queues that wake: an index by both is missing",
  ],
];

/** Statements whose plans depend on statistics, and what is known about them. */
const UNSTEADY: [sql: RegExp, reason: string][] = [
  [
    /^SELECT task FROM dibs\.(scheduled|dead) WHERE queue = \$1 LIMIT/,
    "drop: any index that begins with the queue",
  ],
  [
    /FROM dibs\.scheduled\s+WHERE queue = \$1 AND \(due, task\) >/,
    "a page of scheduled tasks may follow the index by due time, past other queues' tasks",
  ],
  [/FROM dibs\.verifying WHERE queue = \$1/, "a page of verified tasks may go past other queues'"],
  [/FROM dibs\.dead WHERE queue = \$1 AND fingerprint/, "a page of dead letters may go past other errors"],
  [/ORDER BY wake_at LIMIT 1/, "the lanes of a queue, or those that wake: an index by both is missing"],
];

/** Statements that the tour of the store might not execute. */
const SEEN: [table: string, sql: RegExp][] = [
  ["inbox", /FOR UPDATE SKIP LOCKED\s+\), passed/],
  ["inbox", /ARRAY .* queue = ANY .* FOR UPDATE NOWAIT\)/s],
  ["claim", /settled AS \(.* success\.result/s],
  ["claim", /settled AS \(.* NULL AS result/s],
];

/** Statements after a tour of the store, and the tables that they are about. */
interface Toured {
  link: Connection;
  store: PostgresStore;
  tables: string[];
  indexes: Indexes;
  /** A statement with the query for its plan. */
  statements: Map<string, string>;
}

async function takeTour(): Promise<Toured> {
  const place = await ground();
  const engine = await place.engine();
  const link = await connect(place);
  const tables = await readTables(link);
  // Statistics are only what a test asks for.
  for (const table of tables) await link.exec(`ALTER TABLE dibs.${table} SET (autovacuum_enabled = false)`);
  const store = new PostgresStore(link, { session: true, durability: "full" });
  const clock = `${place.schema}_clock`;
  const admin = await place.client();
  await admin.query(clockIn(clock));
  await link.exec(`SET search_path = ${clock}, pg_catalog`);
  onTestFinished(() => dropSchema(place.url, clock));
  await tour({
    execute: async (ops, { wall }) => {
      await admin.query(setClock(clock), [Math.floor(wall)]);
      return store.run(ops);
    },
  });
  // The plans are those of the server's own functions.
  await link.exec(`RESET search_path`);
  await leaveNotes(engine, await place.client());
  await work(link, store);
  return { link, store, tables, indexes: await readIndexes(link), statements: await readStatements(link) };
}

test("no statement scans a table that grows, on a store that is new, full or analyzed", async () => {
  const { link, store, tables, indexes, statements } = await takeTour();
  expect(statements.size).toBeGreaterThan(300);
  for (const [table, words] of SEEN)
    expect(
      [...statements.keys()].filter((sql) => words.test(sql) && sql.includes(`dibs.${table}`)),
    ).not.toEqual([]);
  const empty = await explain(link, statements);
  await fill(store);
  const filled = await explain(link, statements);
  for (const table of tables) {
    if ((await link.all(`SELECT 1 FROM dibs.${table} LIMIT 1`)).length > 0)
      await link.exec(`ANALYZE dibs.${table}`);
  }
  const analyzed = await explain(link, statements);

  const used = new Set<unknown>();
  const bad: string[] = [];
  for (const sql of statements.keys()) {
    const plans = [empty, filled, analyzed].map((each) => each.get(sql)!);
    for (const { table, cost } of plans.flatMap((plan) => costsOf(plan, indexes))) {
      const exception = EXCEPTIONS.find(([name, pattern]) => name === table && pattern.test(sql));
      if (exception) used.add(exception);
      else bad.push(`${cost}\n${sql.trim()}`);
    }
    const [first, ...others] = plans.map((plan) => wayOf(plan, indexes));
    const other = others.find((way) => way !== first);
    if (other === undefined) continue;
    const unsteady = UNSTEADY.find(([pattern]) => pattern.test(sql));
    if (unsteady) used.add(unsteady);
    else bad.push(`${first}\nand later ${other}\n${sql.trim()}`);
  }
  expect(bad).toEqual([]);
  // Delete what is no longer needed.
  expect([...EXCEPTIONS, ...UNSTEADY].filter((each) => !used.has(each))).toEqual([]);
});

// A plan is kept although its tables change: they may be large an hour later.
test("no table is walked over that was small or empty when it was analyzed, whatever the others were", async () => {
  const { link, store, tables, indexes, statements } = await takeTour();
  const bad: string[] = [];
  // Only the sizes of a statement's own tables change its plan.
  const look = async (when: string, table = ""): Promise<void> => {
    const some = [...statements].filter(([sql]) => sql.includes(`dibs.${table}`));
    for (const [sql, plan] of await explain(link, new Map(some))) {
      const costs = costsOf(plan, indexes).filter(
        ({ table }) => !EXCEPTIONS.some(([name, pattern]) => name === table && pattern.test(sql)),
      );
      bad.push(...costs.map(({ cost }) => `analyzed ${when}: ${cost}\n${sql.trim()}`));
    }
  };
  const analyze = (some = tables): Promise<void> =>
    link.exec(`ANALYZE ${some.map((table) => `dibs.${table}`).join(", ")}`);
  // The deletes are undone. What was found of the sizes stays until the tables are analyzed again.
  const without = async (emptied: string[], then: () => Promise<void>): Promise<void> => {
    await link.exec("SAVEPOINT filled");
    for (const table of emptied) await link.exec(`DELETE FROM dibs.${table}`);
    await analyze(emptied);
    await then();
    await link.exec("ROLLBACK TO filled; RELEASE filled");
    await analyze(emptied);
  };
  // By halves: each table is emptied five times, and not once for each of the others.
  const lookAtSingle = async (filled: string[]): Promise<void> => {
    const [table, ...others] = filled as [string, ...string[]];
    if (others.length === 0) return look(`when all but ${table} were empty`, table);
    const half = filled.length >> 1;
    const [one, other] = [filled.slice(0, half), filled.slice(half)];
    await without(other, () => lookAtSingle(one));
    await without(one, () => lookAtSingle(other));
  };
  await analyze();
  await look("when all were small");
  await fill(store);
  await analyze();
  await link.exec("BEGIN");
  await without(tables, () => look("when all were empty"));
  for (const table of tables) await without([table], () => look(`when ${table} was empty`, table));
  await lookAtSingle(tables);
  await link.exec("ROLLBACK");
  expect(bad).toEqual([]);
});

test("no statement that locks or writes to rows copies payloads or results of what it is joined with", async () => {
  const { link, statements } = await takeTour();
  const questions = [...statements].map(
    ([sql, question]) => [sql, question.replace("EXPLAIN (", "EXPLAIN (VERBOSE, ")] as const,
  );
  const plans = await explain(link, new Map(questions));
  expect([...plans].flatMap(([sql, plan]) => (copiesPayloads(plan) ? sql.trim() : []))).toEqual([]);
});

/** The query for the plan of each statement. */
async function readStatements(link: Connection): Promise<Map<string, string>> {
  const rows = await link.all<{ name: string; statement: string; count: number }>(
    `SELECT name, statement, cardinality(parameter_types) AS count FROM pg_prepared_statements`,
  );
  const prepared = new Map(rows.map((row) => [row.statement, row]));
  const ours = [...link.statements].filter((sql) => !/\bpg_(tables|index|prepared_statements)\b/.test(sql));
  return new Map(
    ours.map((sql) => {
      const { name, count } = prepared.get(inSchema(sql, link.schema))!;
      const values = count === 0 ? "" : `(${Array(count).fill("NULL").join(", ")})`;
      return [sql, `EXPLAIN (FORMAT JSON) EXECUTE ${name}${values}`];
    }),
  );
}

/** The plans as they are made now. They stay until the connection ends, an index is created or ANALYZE runs. */
async function explain(link: Connection, statements: Map<string, string>): Promise<Map<string, Node>> {
  await link.exec("DISCARD PLANS");
  const plans = [...statements].map(async ([sql, question]) => {
    const [row] = await link.all<{ "QUERY PLAN": [{ Plan: Node }] }>(question);
    return [sql, row!["QUERY PLAN"][0].Plan] as const;
  });
  return new Map(await Promise.all(plans));
}

/** For the next batch to take up, in a transaction as callers have them. */
async function leaveNotes(engine: Engine, client: Client): Promise<void> {
  await client.query("BEGIN");
  for (const groupKey of ["g0", "other"])
    await engine.executeInTransaction!(client, {
      verb: "add",
      tasks: [newTask({ groupKey }), newTask({ delay: 5 })],
    });
  await client.query("COMMIT");
}

async function work(link: Connection, store: PostgresStore): Promise<void> {
  const run = asker(store);
  const { session } = (await run<"join">({ verb: "join", worker: worker("w"), lease: 60_000 }))[0]!;
  const tasks = Array.from({ length: 200 }, (_, i) =>
    newTask([{ groupKey: `g${i % 9}` }, { idempotencyKey: `${i}` }, { ttl: 99_999 }, {}][i % 4]),
  );
  for (const part of [tasks.slice(0, 100), tasks.slice(100, 150)])
    await run<"add">({ verb: "add", tasks: part });
  await run<"add">(...tasks.slice(150).map((task): Op<"add"> => ({ verb: "add", tasks: [task] })));
  await raiseFloors(link, [QUEUE]);
  await checkFloors(link);
  for (let i = 0; i < 3; i++) {
    const [claimed] = await run<"claim">({ verb: "claim", queues: [QUEUE], max: 20, worker: "w", session });
    const settlement = { kind: "done", result: i === 0 ? "1" : null } as const;
    await run<"settle">(
      ...claimed!.tasks.map(({ id, fence }): Op<"settle"> => ({ verb: "settle", id, fence, settlement })),
    );
  }
  await run<"housekeep">({ verb: "housekeep" });
  await run<"prune">({ verb: "prune", limit: 10 });
  await store.noticed([session]);
  await store.queues([QUEUE]);
}
