// Several agents share one queue. One of them keeps giving unusable answers, so its tasks go to the others.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { open, Reject, Retry } from "../src/index.ts";

interface Answer {
  words: number;
  by: string;
}

await using dibs = await open(process.argv[2] ?? ":memory:");
const questions = dibs.queue<{ text: string }, Answer>("questions", { maxAttempts: 3 });

/** Replaces a model that is asked to answer in JSON. */
async function ask(agent: string, text: string): Promise<string> {
  await sleep(5);
  return agent === "bob" ? "Certainly! Here is what you asked for." : JSON.stringify(text.split(" ").length);
}

for (const name of ["ada", "bob", "cyd"]) {
  questions.work(
    async (task) => {
      if (task.data.text === "") throw new Reject("Nobody can answer an empty question.");
      const said = await ask(name, task.data.text);
      // Fails this attempt. No delay is needed, because another agent gets the next attempt.
      if (!/^\d+$/.test(said)) throw new Retry(`not a number: ${said}`, { delay: 0 });
      return { words: Number(said), by: name };
    },
    { name },
  );
}

const texts = Array.from({ length: 20 }, (_, index) => `how many words has question ${index}`);
const tasks = await questions.addMany(texts.map((text) => ({ data: { text } })));
const answers = await Promise.all(tasks.map((task) => task.result({ timeout: "30s" })));
const ledgers = await Promise.all(tasks.map((task) => task.history()));
const failedByBob = ledgers.filter(([first]) => first?.worker.startsWith("bob#"));
assert.ok(answers.every((answer) => answer.words === 6 && answer.by !== "bob"));
assert.ok(failedByBob.length > 0);
assert.ok(failedByBob.every(([first, second]) => first?.outcome === "failed" && second?.outcome === "done"));
console.log(`${answers.length} answers; ${failedByBob.length} went wrong at bob and right elsewhere`);

const empty = await questions.add({ text: "" });
await assert.rejects(empty.result({ timeout: "30s" }), { code: "TASK_DEAD" });
console.log(`the empty question is a dead letter after ${(await empty.history()).length} attempt`);
