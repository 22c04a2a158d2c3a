// An agent pipeline: a document is split into sections, each section is analysed on its own, and one review joins them.
// A verifier refuses a bad analysis. The work of one stage is not lost when another stage fails.

import assert from "node:assert/strict";
import { each, open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");

const report = dibs
  .pipeline<{ text: string }>("report")
  .stage("extract", (task) => each(task.data.text.split("\n")))
  // One part of the run for each section, four of them at a time.
  .stage(
    "analyse",
    (task) => {
      // A model would get the feedback as input. This handler only needs a second attempt.
      const words = task.data.split(" ");
      return { section: task.data, words: task.feedback === undefined ? words.length + 1 : words.length };
    },
    { concurrency: 4, backoff: { type: "fixed", delay: "20ms" } },
  )
  // Starts once, when all parts are in.
  .join("review", (task) => `${task.data.length} sections, ${sum(task.data)} words`);

function sum(sections: { words: number }[]): number {
  return sections.reduce((all, { words }) => all + words, 0);
}

report.queue("analyse").verify((_, result) => {
  const { section, words } = result;
  return words === section.split(" ").length || { refuse: "count again" };
});
await using worker = report.work();
await worker.ready;

const run = await report.add({ text: "a run is one journey\nits parts go their own ways\nand meet again" });
assert.equal(await run.result({ timeout: "30s" }), "3 sections, 14 words");
const { stages } = await run.status();
for (const { name, state, parts } of stages) console.log(`${name}: ${parts.length} ${state}`);

const empty = await report.add({ text: "one" });
assert.equal(await empty.result({ timeout: "30s" }), "1 sections, 1 words");
console.log(
  `refused and done again: ${(await dibs.task(stages[1]!.parts[0]!.id).history()).length} attempts`,
);
