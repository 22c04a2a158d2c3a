// One tenant adds 500 tasks, another one ten: the two rotate. And a conversation stays with the worker that knows it.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const renders = dibs.queue<number>("renders", { groups: { fair: true, concurrency: 4 } });
await renders.addMany(Array.from({ length: 500 }, (_, n) => ({ data: n, groupKey: "large" })));
const small = await renders.addMany(Array.from({ length: 10 }, (_, n) => ({ data: n, groupKey: "small" })));

let ofLarge = 0;
renders.work(
  (task) => {
    if (task.groupKey === "large") ofLarge++;
  },
  { concurrency: 4 },
);
await Promise.all(small.map((task) => task.result({ timeout: "30s" })));
// The tenants alternate, except for tasks that were already running.
assert.ok(ofLarge <= 40, `${ofLarge} of the large tenant`);
console.log(`small: all 10 done after at most ${ofLarge} of 500 of the large one`);

const chats = dibs.queue<string>("chats", { groups: { sticky: true } });
const seenBy = new Map<string, Set<string>>();
for (const name of ["ada", "bob", "cleo"]) {
  const worker = chats.work(
    (task) => {
      const seen = seenBy.get(task.groupKey!) ?? new Set();
      seenBy.set(task.groupKey!, seen.add(name));
    },
    { name },
  );
  await worker.ready;
}
const messages = Array.from({ length: 60 }, (_, n) => ({ data: `message ${n}`, groupKey: `chat-${n % 6}` }));
await Promise.all((await chats.addMany(messages)).map((task) => task.result({ timeout: "30s" })));
assert.ok([...seenBy.values()].every((workers) => workers.size === 1));
console.log(`${seenBy.size} conversations of 10 messages, one worker each`);
