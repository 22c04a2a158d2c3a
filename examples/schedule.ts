// A schedule adds one task for each of its times, however many processes have the store open.

import assert from "node:assert/strict";
import { open, PLANNED_HEADER } from "../src/index.ts";

const address = process.argv[2] ?? ":memory:";
await using dibs = await open(address);
// Three processes would give the same result. A store in memory can only be opened once.
const others = address === ":memory:" ? [] : [await open(address), await open(address)];

const nightly = dibs.schedule(
  "nightly",
  { cron: "0 3 * * *", tz: "Europe/London" },
  { queue: "reports", data: { kind: "sales" } },
);
const { next } = await nightly.info();
assert.equal(next.length, 5);
console.log(`the next report is planned for ${next[0]!.toISOString()}`);

const planned: string[] = [];
const { promise: enough, resolve } = Promise.withResolvers<void>();
dibs.queue<null>("ticks").work(async (task) => {
  planned.push(task.headers[PLANNED_HEADER]!);
  if (planned.length === 3) resolve();
});
const ticks = dibs.schedule("ticks", { every: "1s" }, { queue: "ticks" });
for (const other of others) other.schedule("ticks", { every: "1s" }, { queue: "ticks" });
await enough;
await ticks.pause();

const gaps = planned.slice(1).map((time, n) => Date.parse(time) - Date.parse(planned[n]!));
assert.ok(gaps.every((gap) => gap > 0 && gap % 1_000 === 0));
assert.equal(new Set(planned).size, planned.length);
console.log(`${planned.length} ticks, each once`);

for (const { name, paused } of await dibs.schedules()) console.log(`${name}${paused ? ", paused" : ""}`);
assert.equal(await nightly.delete(), true);
await Promise.all(others.map((other) => other.close()));
