// A handler that gets many tasks at once, as for a bulk insert. Each task is still settled separately.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

interface Row {
  id: number;
  name: string;
}

await using dibs = await open(process.argv[2] ?? ":memory:");
const rows = dibs.queue<Row, string>("rows", { backoff: { type: "fixed", delay: "20ms" } });

const tasks = await rows.addMany(
  Array.from({ length: 120 }, (_, id) => ({ data: { id, name: id === 7 ? "" : `row ${id}` } })),
);

const sizes: number[] = [];
rows.workBatch(
  async (batch) => {
    sizes.push(batch.length);
    for (const task of batch) {
      // Settled in the handler: the rest of the batch is not affected.
      if (task.data.name === "") await task.reject(new Error("a row needs a name"));
      if (task.data.id === 8 && task.attempt === 1) await task.nack(new Error("locked, try again"));
    }
    // Tasks that are not settled yet are acked, each with its own result. A throw would fail only these.
    return batch.map((task) => `stored ${task.data.id}`);
  },
  { max: 50 },
);

const ends = await Promise.allSettled(tasks.map((task) => task.result({ timeout: "30s" })));
const refused = ends.filter((end) => end.status === "rejected");
assert.equal(refused.length, 1);
assert.equal(ends[7]?.status, "rejected");
assert.deepEqual(ends[8], { status: "fulfilled", value: "stored 8" });
assert.deepEqual(
  (await tasks[8]!.history()).map(({ outcome }) => outcome),
  ["failed", "done"],
);
assert.ok(Math.max(...sizes) <= 50);
console.log(
  `batches of ${sizes.join(", ")}: ${ends.length - refused.length} stored, ${refused.length} refused`,
);
