// A handler adds a task to the next queue: it commits together with the handler's own success, or not at all.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const drafts = dibs.queue<{ topic: string }, string>("drafts", { backoff: { type: "fixed", delay: "20ms" } });
const reviews = dibs.queue<{ text: string }, string>("reviews");

drafts.work(async (task) => {
  const text = `all about ${task.data.topic}`;
  await task.add(reviews, { text }, { groupKey: task.data.topic });
  // The review of a failed attempt is never added, so there is no second one after the retry.
  if (task.attempt === 1) throw new Error("out of ink");
  return text;
});

const done = Promise.withResolvers<string>();
reviews.work(async (task) => {
  done.resolve(task.data.text);
  return "well written";
});

const draft = await drafts.add({ topic: "queues" });
assert.equal(await draft.result({ timeout: "30s" }), "all about queues");
assert.equal(await done.promise, "all about queues");
const { depth } = await reviews.stats();
assert.equal(depth.ready + depth.claimed + depth.done, 1);
const outcomes = (await draft.history()).map(({ outcome }) => outcome);
assert.deepEqual(outcomes, ["failed", "done"]);
console.log(`two attempts (${outcomes.join(", ")}), one review`);
