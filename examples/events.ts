// Events report what happens in every process that has the store open.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const tea = dibs.queue<string, string>("tea", { backoff: { type: "fixed", delay: "20ms" } });

// Listening starts here, not at the first iteration of the loop.
const events = dibs.events();
tea.work(
  async (task) => {
    if (task.attempt === 1) throw new Error("no hot water");
    return `a cup of ${task.data}`;
  },
  { name: "kettle" },
);
const task = await tea.add("earl grey");

const seen: string[] = [];
for await (const event of events) {
  if (!("taskId" in event)) continue;
  const worker = event.worker === undefined ? "" : ` by ${event.worker.split("#")[0]}`;
  const detail = event.detail === undefined ? "" : `: ${event.detail}`;
  console.log(`${event.type}${worker}${detail}`);
  seen.push(event.type);
  // Leaving the loop stops listening.
  if (event.type === "task.done" && event.taskId === task.id) break;
}
assert.deepEqual(seen, ["task.added", "task.claimed", "task.failed", "task.claimed", "task.done"]);
