// A handler that continues where it failed. It waits for a person, and for time to pass, without occupying a worker.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const letters = dibs.queue<{ to: string }, string>("letters", {
  backoff: { type: "fixed", delay: "20ms" },
});

let drafts = 0;
let sent = 0;
letters.work(async (task) => {
  const draft = await task.step("draft", () => {
    drafts++;
    return `Dear ${task.data.to}`;
  });
  // The first attempt ends here, and the worker is free.
  const { by } = await task.waitFor<{ by: string }>("approval", { timeout: "1h" });
  await task.log(`approved by ${by}`);
  await task.sleep("50ms"); // or "3d": the pause is in the store
  await task.step("send", () => {
    if (++sent === 1) throw new Error("the post office is closed");
  });
  return `${draft}, approved by ${by}`;
});

const task = await letters.add({ to: "Ada" });
while ((await task.info()).state !== "parked") await new Promise((resolve) => setTimeout(resolve, 10));

assert.equal(await task.signal("approval", { by: "Grace" }), true);
assert.equal(await task.signal("approval", { by: "Mallory" }), false);
assert.equal(await task.result({ timeout: "30s" }), "Dear Ada, approved by Grace");
assert.equal(drafts, 1);
assert.deepEqual(
  (await task.history()).map(({ outcome }) => outcome),
  ["parked", "parked", "failed", "done"],
);
assert.deepEqual(
  (await task.history()).map(({ log }) => log.map(({ text }) => text)),
  [[], ["approved by Grace"], ["approved by Grace"], ["approved by Grace"]],
);
console.log(`one draft, ${sent} tries to send it`);
