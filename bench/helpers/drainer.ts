// Drains a part of a store in a process of its own, so that its memory can be told from the scenario's.

import { open } from "../../src/index.ts";
import { helperTask, say } from "../helper.ts";
import type { DrainReport, DrainTask } from "../deep.ts";

const { path, queue, count, ahead } = helperTask() as DrainTask;
say("ready");

const dibs = await open(path);
const all = Promise.withResolvers<number>();
let handled = 0;
const start = performance.now();
const worker = dibs.queue(queue).work(
  () => {
    if (++handled === count) all.resolve(performance.now() - start);
  },
  { concurrency: 100, prefetch: ahead },
);
const taken = await all.promise;
// The most it had at any time, as the system counts it: in KiB.
const peak = process.resourceUsage().maxRSS;
await worker.stop();
await dibs.close();
say({ perSecond: (count / taken) * 1_000, megabytes: peak / 1_024 } satisfies DrainReport);
