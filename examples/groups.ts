// Messages of one customer are handled in order, one at a time. Different customers are handled in parallel.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { open } from "../src/index.ts";

interface Message {
  customer: string;
  number: number;
}

await using dibs = await open(process.argv[2] ?? ":memory:");
const messages = dibs.queue<Message>("messages", { backoff: { type: "fixed", delay: "50ms" } });

const seen = new Map<string, number[]>();
const underWay = new Set<string>();
let mostAtOnce = 0;

messages.work(
  async (task) => {
    const { customer, number } = task.data;
    assert.ok(!underWay.has(customer), "two messages of one customer at once");
    underWay.add(customer);
    mostAtOnce = Math.max(mostAtOnce, underWay.size);
    await sleep(5 + ((number * 7) % 10));
    underWay.delete(customer);
    // A failed message blocks its group until it is done or dead: the next one does not overtake it.
    if (number === 2 && task.attempt === 1) throw new Error("the line dropped");
    seen.set(customer, [...(seen.get(customer) ?? []), number]);
  },
  { concurrency: 8 },
);

const customers = ["ada", "bob", "cyd", "dan"];
const conversation = [1, 2, 3, 4, 5];
const tasks = await messages.addMany(
  conversation.flatMap((number) =>
    customers.map((customer) => ({ data: { customer, number }, groupKey: customer })),
  ),
);
await Promise.all(tasks.map((task) => task.result({ timeout: "30s" })));

for (const customer of customers) {
  assert.deepEqual(seen.get(customer), conversation);
  console.log(`${customer}: ${conversation.join(" ")}, in order`);
}
assert.ok(mostAtOnce > 1);
console.log(`customers served side by side: ${mostAtOnce}`);
