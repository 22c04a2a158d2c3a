// Tasks with a higher priority go first, delayed tasks wait, and tasks that no worker started in time expire.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const jobs = dibs.queue<string>("jobs");

const now = [
  await jobs.add("routine"),
  await jobs.add("whenever", { priority: -10 }),
  await jobs.add("urgent", { priority: 10 }),
];
const asked = performance.now();
const later = [
  await jobs.add("in a moment", { delay: "500ms" }),
  await jobs.add("at a set time", { runAt: new Date(Date.now() + 1_000) }),
];
const stale = await jobs.add("only fresh", { ttl: "1ms", delay: "5ms" });

const order: string[] = [];
const startedAt = new Map<string, number>();
jobs.work(async (task) => {
  order.push(task.data);
  startedAt.set(task.data, performance.now());
});

await Promise.all([...now, ...later].map((task) => task.result({ timeout: "30s" })));
assert.deepEqual(
  order.filter((name) => ["urgent", "routine", "whenever"].includes(name)),
  ["urgent", "routine", "whenever"],
);
console.log(`done in this order: ${order.join(", ")}`);

// A delay counts from the call. The store's clock has whole milliseconds.
for (const name of ["in a moment", "at a set time"]) {
  assert.ok(startedAt.get(name)! - asked > 499);
  console.log(`${name}: not before it was due`);
}

await assert.rejects(stale.result({ timeout: "30s" }), { code: "TASK_EXPIRED" });
assert.ok(!order.includes("only fresh"));
console.log("the stale one expired and was never run");
