// One order is published, and every department gets its own copy, at its own pace and with its own failures.

import assert from "node:assert/strict";
import { defineTopic, open } from "../src/index.ts";

interface Order {
  id: number;
  item: string;
  cents: number;
}

await using dibs = await open(process.argv[2] ?? ":memory:");
const orderPlaced = defineTopic<Order>("order.placed");
const placed = dibs.topic(orderPlaced);

// Two workers of one group compete: each order is taken from the shelf once.
const shelf = new Map([["tea", 10]]);
for (const name of ["shelf-1", "shelf-2"]) {
  placed.subscribe(
    "inventory",
    ({ data }) => {
      shelf.set(data.item, shelf.get(data.item)! - 1);
    },
    { name, concurrency: 3 },
  );
}

// Another name is another group, with its own copy. It limits how many tasks it stores, and for how long.
let turnover = 0;
placed.subscribe("analytics", ({ data }) => void (turnover += data.cents), { maxDepth: 10_000, ttl: "1d" });

// A failure in this group is retried in this group only.
const retry = { backoff: { type: "fixed", delay: "20ms" }, maxAttempts: 3 } as const;
const notify = placed.subscribe<string>(
  "notification",
  ({ data, attempt }) => {
    if (data.id === 2 && attempt === 1) throw new Error("mail server away");
    return `order ${data.id}: thank you, on attempt ${attempt}`;
  },
  retry,
);

// A pattern follows many topics: * is one word, # any number of words.
const heard: string[] = [];
const audit = dibs.subscribe("order.#", "audit", (task) => void heard.push(`${task.topic}`));
await Promise.all([notify.ready, audit.ready]);

for (const id of [1, 2, 3]) {
  // To all groups, or to none. With a key, a publisher that is not sure may repeat the call.
  const order = { id, item: "tea", cents: 450 };
  const { reached, tasks } = await placed.publish(order, { idempotencyKey: `${id}` });
  assert.equal(reached, 4);
  await Promise.all(tasks.map((task) => task.result({ timeout: "30s" })));
  const note = tasks.find(({ queue }) => queue === placed.subscription("notification").name)!;
  console.log(await dibs.task<string>(note.id).result());
}
assert.equal((await dibs.topic("weather.changed").publish("rain")).reached, 0);

assert.equal(shelf.get("tea"), 7);
assert.equal(turnover, 3 * 450);
assert.deepEqual(heard, ["order.placed", "order.placed", "order.placed"]);
const { depth } = await placed.subscription("inventory").stats();
console.log(`${depth.done} orders off the shelf, ${turnover} cents counted, ${heard.length} audited`);

// A group without workers still collects tasks. It is removed when it is unsubscribed.
await audit.stop();
const { tasks } = await placed.publish({ id: 4, item: "tea", cents: 450 });
const waiting = await dibs.subscription("order.#", "audit").stats();
assert.deepEqual([tasks.length, waiting.depth.ready], [4, 1]);
assert.equal(await dibs.unsubscribe("order.#", "audit"), true);
console.log(`audit left; ${(await dibs.subscriptions({ topic: "order.placed" })).length} groups stay`);
