// Dead letters are stored with their errors: find patterns, fix the cause, redrive them, discard the rest.

import assert from "node:assert/strict";
import { open, Reject } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const pages = dibs.queue<{ url: string }, string>("pages", { maxAttempts: 1 });

let isMended = false;
pages.work(
  async (task) => {
    if (task.data.url.startsWith("ftp:")) throw new Reject("unknown scheme");
    if (!isMended) throw new Error(`connect to port ${4_000 + task.data.url.length} timed out`);
    return "fetched";
  },
  { concurrency: 4 },
);

const urls = ["http://a.example", "http://ab.example", "http://abc.example", "ftp://a.example"];
const tasks = await pages.addMany(urls.map((url) => ({ data: { url } })));
for (const task of tasks) await assert.rejects(task.result({ timeout: "30s" }), { code: "TASK_DEAD" });

// Errors that differ only in numbers, ids or quoted texts have the same pattern.
const patterns = await pages.dead.patterns();
for (const { pattern, count, share } of patterns) console.log(`${count} (${share * 100} %)  ${pattern}`);
assert.deepEqual(
  patterns.map(({ count }) => count),
  [3, 1],
);

isMended = true;
const timedOut = patterns[0]!.pattern;
const started = Date.now();
const { count } = await pages.dead.redrive({ pattern: timedOut, rate: { max: 10, per: "1s" } });
const results = await Promise.all(tasks.slice(0, 3).map((task) => task.result({ timeout: "30s" })));
assert.deepEqual(results, ["fetched", "fetched", "fetched"]);
assert.ok(Date.now() - started >= 190, "three at ten a second take a fifth of a second");
console.log(`${count} sent back at ten a second: all fetched`);

const { tasks: left } = await pages.dead.list({ error: "scheme" });
assert.equal(left.length, 1);
console.log(`${(await pages.dead.discard({ ids: left.map(({ id }) => id) })).count} discarded`);
assert.equal((await pages.stats()).depth.dead, 0);
