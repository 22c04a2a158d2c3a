// A pipeline with branches: one stage is followed by two, and another merges what both have found.
// Its last branch, which sends a mail, waits for a person, and the signal goes to the run.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");

const review = dibs
  .pipeline<{ text: string }>("review")
  .stage("read", (task) => task.data.text.trim())
  .stage("facts", (task) => task.data.split(".").filter((sentence) => sentence !== "").length)
  // Both follow "read" and start at the same time.
  .stage("style", (task) => (task.data.includes("very") ? "wordy" : "clear"), { after: "read" })
  // Starts when both are done, and gets an object with their results.
  .stage("verdict", ({ data }) => `${data.facts} sentences, ${data.style}`, { after: ["facts", "style"] })
  .stage("publish", async (task) => {
    const { by } = await task.waitFor<{ by: string }>("approval");
    return `${task.data}, approved by ${by}`;
  });

await using worker = review.work();
await worker.ready;

const run = await review.add({ text: "This is very short. It has two sentences." });
// The caller knows the run, not the task that will wait. A signal that comes early is kept.
assert.equal(await run.signal("approval", { by: "grace" }), true);
assert.equal(await run.result({ timeout: "30s" }), "2 sentences, wordy, approved by grace");

const { stages } = await run.status();
for (const { name, after, state } of stages)
  console.log(`${name} (after ${after?.toString() ?? "the one before"}): ${state}`);
