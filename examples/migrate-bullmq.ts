// An application that used BullMQ, on dibs: the same options under their names here.

import assert from "node:assert/strict";
import { open, Reject } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");

// new Queue("emails", { connection, defaultJobOptions: { attempts: 3, backoff: { type: "exponential", delay: 20 } } })
const emails = dibs.queue<{ to: string }, string>("emails", {
  maxAttempts: 3,
  backoff: { type: "exponential", delay: "20ms" },
  elsewhere: 0,
});

// new Worker("emails", async (job) => …, { connection, concurrency: 5, limiter: { max: 100, duration: 1000 } })
await emails.configure({ rateLimit: { max: 100, per: "1s" } });
const worker = emails.work(
  async (task) => {
    if (!task.data.to.includes("@")) throw new Reject("not an address"); // UnrecoverableError
    if (task.attempt < 2) throw new Error("mail server is busy");
    await task.progress(0.5); // job.updateProgress(50)
    return `sent on attempt ${task.attempt}`;
  },
  { concurrency: 5 },
);

// queue.add("welcome", data, { jobId: "welcome-7", priority: 1, delay: 50 })
const options = { idempotencyKey: "welcome-7", priority: 10, delay: "50ms" } as const;
const task = await emails.add({ to: "ada@example.com" }, options);
assert.equal((await emails.add({ to: "ada@example.com" }, options)).id, task.id);

// job.waitUntilFinished(queueEvents, 30_000)
const sent = await task.result({ timeout: "30s" });

// The set of failed jobs: queue.getFailed(), job.retry()
const wrong = await emails.add({ to: "nobody" });
await assert.rejects(wrong.result({ timeout: "30s" }), { code: "TASK_DEAD" });
const { tasks: failed } = await emails.dead.list();
assert.equal(failed.length, 1);
await emails.dead.discard({ ids: [wrong.id] }); // job.remove()

await worker.stop(); // worker.close()
console.log(`${sent}; ${failed.length} failed: ${failed[0]!.error?.message}`);
