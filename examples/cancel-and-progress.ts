// A long task reports its progress. Any process that has its id can read the progress and cancel the task.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const videos = dibs.queue<{ minutes: number }, string>("videos");

videos.work(async (task) => {
  for (let minute = 1; minute <= task.data.minutes; minute++) {
    // Rejects as soon as the task is cancelled, its claim is lost, or the worker stops.
    await sleep(20, undefined, { signal: task.signal });
    await task.progress(minute / task.data.minutes, `minute ${minute}`);
  }
  return "rendered";
});

const short = await videos.add({ minutes: 2 });
assert.equal(await short.result({ timeout: "30s" }), "rendered");

const long = await videos.add({ minutes: 10_000 });
let info = await long.info();
while (info.progress === null) {
  await sleep(20);
  info = await long.info();
}
console.log(`${info.state} by a worker, at ${info.progress.note}`);

await long.cancel();
await assert.rejects(long.result({ timeout: "30s" }), { code: "TASK_CANCELLED" });
assert.equal((await long.info()).state, "cancelled");
console.log("cancelled while it ran");

// A task that no worker has claimed yet ends at once.
const later = await videos.add({ minutes: 1 }, { delay: "1h" });
assert.equal(await later.cancel(), "cancelled");
console.log("cancelled before it ran");
