// An agent that splits a question into parts, has them answered by other workers, and merges the answers. While the
// parts are worked on, the agent occupies no worker.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const research = dibs.queue<string, string>("research");
const facts = dibs.queue<{ topic: string }, { topic: string; fact: string }>("facts", {
  backoff: { type: "fixed", delay: "20ms" },
});

let calls = 0;
research.work(async (task) => {
  calls++;
  const topics = await task.step("plan", () => task.data.split(" and "));
  const parts = await Promise.all(topics.map((topic) => task.spawn(facts, { topic })));
  // The first attempt ends here, and the worker is free.
  const answers = await task.waitForChildren(parts);
  return answers.map(({ topic, fact }) => `${topic}: ${fact}`).join("; ");
});

const known: Record<string, string> = { bees: "they dance", whales: "they sing" };
facts.work(
  ({ data: { topic }, attempt }) => {
    if (topic === "bees" && attempt === 1) throw new Error("the library is closed");
    return { topic, fact: known[topic] ?? "nothing is known" };
  },
  { concurrency: 2 },
);

const task = await research.add("bees and whales");
assert.equal(await task.result({ timeout: "30s" }), "bees: they dance; whales: they sing");
assert.equal(calls, 2);

const { children } = await task.children();
assert.deepEqual(
  children.map(({ queue, state }) => [queue, state]),
  [
    ["facts", "done"],
    ["facts", "done"],
  ],
);
assert.deepEqual((await dibs.task(children[0]!.id).info()).parent, { id: task.id, queue: "research" });
console.log(`${children.length} parts answered, and merged in call ${calls}`);
