// A result counts when a verifier has accepted it. A refused task goes to another worker, with the reason.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const summaries = dibs.queue<{ text: string }, string>("summaries", {
  backoff: { type: "fixed", delay: "20ms" },
});

summaries.verify((task, summary) => {
  if (summary.length >= task.data.text.length) return { refuse: "a summary is shorter than its text" };
  return true;
});

const writers: string[] = [];
for (const name of ["hasty", "careful"]) {
  summaries.work(
    (task) => {
      writers.push(name);
      // A model would get the feedback as input. These two handlers only check whether there is any.
      return task.feedback === undefined ? `In short: ${task.data.text}` : task.data.text.slice(0, 5);
    },
    { name },
  );
}

const task = await summaries.add({ text: "A long story about a queue." });
assert.equal(await task.result({ timeout: "30s" }), "A lon");
const [first, second] = await task.history();
assert.equal(first?.outcome, "refused");
assert.equal(second?.outcome, "done");
assert.notEqual(first?.worker, second?.worker);
console.log(`${writers[0]} was refused (${first?.error?.message}), ${writers[1]} was accepted`);
