// An operator finds tasks by their headers, changes the order, the due time and the data, cancels many, and runs one again.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const reports = dibs.queue<{ page: number }, string>("reports");

await reports.addMany(
  Array.from({ length: 300 }, (_, page) => ({
    ...{ data: { page }, delay: "1d" as const },
    headers: { tenant: page < 3 ? "small" : "large" },
  })),
);

// Nobody reads the reports of the large tenant any more.
const { changed } = await reports.changeAll("cancel", { headers: { tenant: "large" } });
console.log(`${changed} cancelled`);

// One of the small tenant's is needed now, with other data; another one today, before all others.
const { tasks } = await reports.tasks({ headers: { tenant: "small" } });
const [first, second] = tasks.map(({ id }) => dibs.task(id));
await first!.update({ data: { page: 100 }, delay: 0 });
await second!.update({ priority: 10 });
await second!.promote();

const order: number[] = [];
const worker = reports.work((task) => {
  order.push(task.data.page);
  return `page ${task.data.page}`;
});
assert.equal(await first!.result({ timeout: "30s" }), "page 100");
await second!.result({ timeout: "30s" });

// The same task, once more. Its ledger has both executions.
await first!.runAgain();
await first!.result({ timeout: "30s" });
await worker.stop();
console.log(
  `ran ${order.join(", ")}; the first has ${(await first!.history()).length} attempts in its ledger`,
);
