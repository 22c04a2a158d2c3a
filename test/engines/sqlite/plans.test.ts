import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/engine/system-clock.ts";
import { Tx } from "../../../src/engines/sqlite/transaction/tx.ts";
import { countStore } from "../../../src/engines/sqlite/transfer/count.ts";
import { exportStore } from "../../../src/engines/sqlite/transfer/export.ts";
import { openStore, tempPath } from "./kit.ts";
import { tour } from "../tour.ts";

/** Tables that stay small however many tasks wait, so that scanning them is cheap. */
const SMALL = new Set([
  "queue",
  "session",
  "serving",
  "notice",
  "flow",
  "listener",
  "store",
  "subscription",
  "document",
  "gate",
]);

/** Statements that may scan a table that is not small, and why. */
const EXCEPTIONS: [sql: RegExp, reason: string][] = [
  [
    /(FROM|UPDATE) claim\b.*session/s,
    "the claims in flight are few, and an index by session would slow every claim",
  ],
  [/FROM claim WHERE queue = \? AND task > \?/, "a page of the claims in flight"],
  [
    /INDEXED BY scheduled_due/,
    "a page of scheduled tasks follows the index by due time, past other queues' tasks",
  ],
  [/FROM dead\b/, "dead letters are looked through when an operator asks for them"],
  [
    /FROM run WHERE ended_at IS NOT NULL GROUP BY/,
    "prune counts the ended runs, which are few beside the tasks",
  ],
  [/run_part CROSS JOIN dead/, "the dead parts of one run, in their order, when somebody asks for its end"],
  [
    /FROM ready_sticky WHERE queue = \? AND \(rank, pos\)/,
    "a page of what is kept for single workers, in the order of all",
  ],
  [/UNION ALL.*coalesce\(task\.pos, task\.seq\) <=/s, "purge looks at when each came, and removes it"],
  [/ORDER BY at, queue\.name/, "lanes that wake at the same moment, in the order of their names"],
  [/DELETE FROM wake WHERE queue = \?/, "drop looks for what wakes the lanes of a queue, once"],
  [/FROM step WHERE task = \?.*ORDER BY/s, "the steps of one task"],
  [/FROM task WHERE seq > \?/, "drop walks over the tasks a bounded number at a time"],
];

test("no statement scans or sorts a table that grows", async () => {
  const path = tempPath();
  const store = openStore(path);
  await tour(store);
  const db = new Database(path, { readonly: true });
  const bad: string[] = [];
  let seen = 0;
  for (const sql of store.statements) {
    if (/^(BEGIN|COMMIT|ROLLBACK)/.test(sql)) continue;
    seen++;
    if (/LIMIT \?/.test(sql)) bad.push(`prepared again at every use\n${sql.trim()}`);
    if (EXCEPTIONS.some(([pattern]) => pattern.test(sql))) continue;
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...unbound(sql)) as { detail: string }[];
    for (const { detail } of plan) if (isCostly(detail)) bad.push(`${detail}\n${sql.trim()}`);
  }
  db.close();
  expect(bad).toEqual([]);
  expect(seen).toBeGreaterThan(90);
});

test("an export and the count after an import sort no table that grows", () => {
  const path = tempPath();
  openStore(path);
  const db = new Database(path);
  onTestFinished(() => void db.close());
  const tx = new Tx(db);
  tx.begin(systemClock.read());
  expect([...exportStore(tx, null, [])]).toHaveLength(1);
  countStore(tx);
  // Claims in flight and results that wait for a verdict are few, and have no index by queue.
  const few = /^SELECT queue, sum\(1\) AS \w+ FROM (claim|verifying) GROUP BY queue$/;
  const sorted = [...tx.statements].filter((sql) => {
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...unbound(sql)) as { detail: string }[];
    return !few.test(sql) && plan.some(({ detail }) => detail.includes("TEMP B-TREE"));
  });
  expect(sorted).toEqual([]);
});

function isCostly(detail: string): boolean {
  if (detail.includes("TEMP B-TREE")) return true;
  const scanned = /^SCAN (\w+)/.exec(detail)?.[1];
  if (scanned === undefined || SMALL.has(scanned)) return false;
  // The values of a VALUES list or of a JSON array, and rows that a subquery has found by an index.
  return !/^SCAN (json_each|(\d+ )?CONSTANT ROW|\d+-ROW VALUES CLAUSE|settled|\(subquery)/.test(detail);
}

/** As many values as the statement takes; which ones does not matter to a plan. */
function unbound(sql: string): unknown[] {
  const anonymous = Array((sql.match(/\?/g) ?? []).length).fill(1);
  const named = Object.fromEntries([...sql.matchAll(/:(\w+)/g)].map(([, name]) => [name, 1]));
  return Object.keys(named).length > 0 ? [anonymous, named] : [anonymous];
}
