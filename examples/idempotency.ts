// A producer that does not know whether its first call succeeded adds again, with the same key.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const payments = dibs.queue<{ order: number; cents: number }, string>("payments");

const first = await payments.add({ order: 42, cents: 1_999 }, { idempotencyKey: "order-42" });
const second = await payments.add({ order: 42, cents: 1_999 }, { idempotencyKey: "order-42" });
assert.equal(second.id, first.id);
assert.deepEqual([first.existing, second.existing], [false, true]);
console.log("the second add got the first one's task");

let charged = 0;
payments.work(async (task) => {
  charged += task.data.cents;
  return `receipt for order ${task.data.order}`;
});

// Both handles wait for the same task, and the key still returns it after its end.
const receipts = await Promise.all([first.result({ timeout: "30s" }), second.result({ timeout: "30s" })]);
assert.deepEqual(receipts, ["receipt for order 42", "receipt for order 42"]);
const third = await payments.add({ order: 42, cents: 1_999 }, { idempotencyKey: "order-42" });
assert.equal(await third.result(), "receipt for order 42");
assert.equal(charged, 1_999);
console.log(`charged once: ${charged} cents`);
