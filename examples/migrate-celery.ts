// What a Celery application does, on dibs: retries, a chain, a chord, and a periodic task without a beat process.

import assert from "node:assert/strict";
import { each, open, Retry } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");

// @app.task(bind=True, max_retries=3), self.retry(countdown=…), rate_limit="100/s", time_limit=60
const pages = dibs.queue<{ url: string }, number>("pages", {
  maxAttempts: 4, // max_retries counts the attempts after the first
  rateLimit: { max: 100, per: "1s" }, // of all workers together
  timeout: "1m",
  elsewhere: 0,
});
pages.work(
  async (task) => {
    if (task.attempt === 1) throw new Retry("not loaded yet", { delay: "20ms" });
    return task.data.url.length;
  },
  { concurrency: 4 },
);

// fetch.apply_async(args=[url], countdown=0.05, expires=60, priority=9), then AsyncResult(id).get(timeout=30)
const task = await pages.add(
  { url: "https://example.com/" },
  { delay: "50ms", ttl: "1m", priority: 9, maxAttempts: 2 },
);
const length = await dibs.task<number>(task.id).result({ timeout: "30s" });

// chord(group(count.s(word) for word in words), total.s()), as a pipeline
const totals = dibs
  .pipeline<string>("totals")
  .stage("split", async ({ data }) => each(data.split(" ")))
  .stage("count", async ({ data }) => data.length)
  .join("total", async ({ data }) => data.reduce((sum, letters) => sum + letters, 0));
totals.work();
const run = await totals.add("first to call it gets it");
const letters = await run.result({ timeout: "30s" });

// app.conf.beat_schedule = { "nightly": { "task": "fetch", "schedule": crontab(hour=3, minute=0) } }
const nightly = dibs.schedule(
  "nightly",
  { cron: "0 3 * * *" },
  { queue: pages, data: { url: "https://example.com/" } },
);
assert.equal((await nightly.info()).next[0]?.getUTCHours(), 3);
console.log(`${length} on attempt ${(await task.history()).length}, ${letters} letters`);
