// What a Sidekiq application does, on dibs: queues by importance, retries, the dead set, and tests without a process.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");

interface Invoice {
  order: number;
}

// sidekiq_options queue: "critical", retry: 2
const policy = {
  maxAttempts: 3, // the first attempt counts too
  backoff: { type: "fixed", delay: "10ms" },
  elsewhere: 0,
} as const;
const critical = dibs.queue<Invoice, string>("critical", policy);
const low = dibs.queue<Invoice, string>("low", policy);

// InvoiceJob.perform_async(1), .perform_in(0.05, 2), Sidekiq::Client.push_bulk
await low.add({ order: 1 });
await critical.add({ order: 2 });
const later = await critical.add({ order: 3 }, { delay: "50ms" });
const [, broken] = await low.addMany([{ data: { order: 4 } }, { data: { order: -1 } }]);

// sidekiq -q critical -q low -c 1: the first queue that has a job
const done: number[] = [];
const worker = dibs.work<Invoice, string>([critical, low], async ({ data }) => {
  if (data.order < 0) throw new Error("no such order");
  done.push(data.order);
  return `invoice ${data.order}`;
});
assert.equal(await later.result({ timeout: "30s" }), "invoice 3");
await assert.rejects(broken!.result({ timeout: "30s" }), { code: "TASK_DEAD" });
assert.equal(done[0], 2);
await worker.stop();

// Sidekiq::DeadSet.new.size, then retry each
const { tasks: dead } = await low.dead.list();
assert.equal((await broken!.history()).length, 3);
const { count } = await low.dead.redrive();
console.log(`${done.length} invoices, ${dead.length} dead after 3 attempts, ${count} sent back`);
