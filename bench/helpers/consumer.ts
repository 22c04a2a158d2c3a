// A consumer in its own process, for any contender.

import { findContender } from "../contenders.ts";
import { helperTask, say } from "../helper.ts";
import { now } from "../measure.ts";
import type { ConsumerTask } from "../consumers.ts";

const { contender, address, queue, concurrency, ahead, reports } = helperTask() as ConsumerTask;
const seen: number[] = [];
const connection = await findContender(contender).connect(address, queue);
await connection.work(
  ({ n }) => {
    if (reports === "delay") say(now() - n);
    else seen.push(n);
  },
  { concurrency, ahead },
);
process.on("message", () => say({ seen }));
say("ready");

if (reports === "count") {
  let told = 0;
  // A message for every task would be measured too.
  setInterval(() => {
    if (seen.length > told) say((told = seen.length));
  }, 5);
}
