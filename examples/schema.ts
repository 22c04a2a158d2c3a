// A definition shared by producers and workers: name, policy, and schemas from which the types follow.

import assert from "node:assert/strict";
import { z } from "zod";
import { defineQueue, open } from "../src/index.ts";

const signUps = defineQueue("sign-ups", {
  schema: z.object({ email: z.email(), plan: z.enum(["free", "team"]).default("free") }),
  result: z.object({ userId: z.number() }),
  maxAttempts: 2,
  backoff: { type: "fixed", delay: "20ms" },
});

await using dibs = await open(process.argv[2] ?? ":memory:");
const queue = dibs.queue(signUps);

queue.work(async (task) => {
  // task.data is the output of the schema: it has a plan, although the producer gave none.
  const plan: "free" | "team" = task.data.plan;
  const userId = task.data.email.length + (plan === "team" ? 1_000 : 0);
  // A bad result is a failed attempt.
  return { userId: task.attempt === 1 ? Number.NaN : userId };
});

const task = await queue.add({ email: "ada@example.com" });
const { userId } = await task.result({ timeout: "30s" });
const ledger = await task.history();
assert.equal(userId, 15);
assert.deepEqual(
  ledger.map(({ outcome }) => outcome),
  ["failed", "done"],
);
console.log(`user ${userId}; the first result was refused: ${ledger[0]?.error?.message}`);

// @ts-expect-error: the compiler knows the plans
await assert.rejects(queue.add({ email: "ada@example.com", plan: "gold" }), { code: "INVALID" });
await assert.rejects(queue.add({ email: "nowhere" }), (error: Error) => {
  console.log(error.message);
  return error.message.includes("email");
});
