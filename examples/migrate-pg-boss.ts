// An application that used pg-boss, on dibs: the same options under their names here.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

// new PgBoss("postgres://…"), boss.start(). With the same address here, the tables are in the schema "dibs".
await using dibs = await open(process.argv[2] ?? ":memory:");

// boss.createQueue("reports", { retryLimit: 2, retryDelay: 0, expireInSeconds: 900 })
const reports = dibs.queue<{ month: string }, string>("reports", {
  maxAttempts: 3, // the first attempt counts too
  backoff: { type: "fixed", delay: "10ms" },
  elsewhere: 0,
  timeout: "15m",
});

// boss.insert("reports", [{ data }, …])
await reports.addMany([{ data: { month: "2026-08" } }, { data: { month: "2026-09" } }]);

// boss.fetch("reports"), boss.fail("reports", id, error)
const [claim] = await reports.claim();
assert.equal(claim?.data.month, "2026-08");
await claim.nack(new Error("no figures yet"));

// boss.send("reports", data, { singletonKey: "2026-10", startAfter: 1, priority: 5 }) on a queue with policy "exclusive"
const unique = { key: "2026-10", while: "pending" } as const;
const task = await reports.add({ month: "2026-10" }, { unique, delay: "50ms", priority: 5 });
const again = await reports.add({ month: "2026-10" }, { unique });
assert.deepEqual([again.id, again.existing], [task.id, true]); // send() resolved with null

// boss.work("reports", async ([job]) => …)
const seen: string[] = [];
reports.work(async ({ data, attempt }) => {
  seen.push(`${data.month} on attempt ${attempt}`);
  return `report of ${data.month}`;
});
assert.equal(await task.result({ timeout: "30s" }), "report of 2026-10");
await dibs.task(claim.id).result({ timeout: "30s" });

// boss.schedule("reports", "0 3 1 * *", data, { tz: "Europe/London" })
const monthly = dibs.schedule(
  "monthly-report",
  { cron: "0 3 1 * *", tz: "Europe/London" },
  { queue: reports, data: { month: "last" } },
);
const { next } = await monthly.info();
assert.equal(next[0]?.getUTCDate(), 1);
console.log(seen.toSorted().join("; "));
