// Drains a part of a store in its own process, so that its memory can be measured separately from the scenario's.

import { readFileSync } from "node:fs";
import { open } from "../../src/index.ts";
import type { DrainReport, DrainTask } from "../deep.ts";
import { helperTask, say } from "../helper.ts";
import { payloads } from "../measure.ts";

const WARM_UP = "warm-up";

const { path, queue, count, warmUp, ahead } = helperTask() as DrainTask;
say("ready");

const dibs = await open(path);
// A warm-up, so that V8 has compiled the code before the measurement.
await dibs.queue(WARM_UP).addMany(payloads(warmUp).map((data) => ({ data })));
await drain(WARM_UP, warmUp);
const taken = await drain(queue, count);
await dibs.close();
say({ perSecond: (count / taken) * 1_000, megabytes: peakKib() / 1_024 } satisfies DrainReport);

/** Peak memory of this process. `maxRSS` will not do: Linux includes the parent process, which had filled the store. */
function peakKib(): number {
  if (process.platform !== "linux") return process.resourceUsage().maxRSS;
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))![1]);
}

/** Milliseconds until `count` tasks are handled; there may be more of them. */
async function drain(name: string, count: number): Promise<number> {
  const all = Promise.withResolvers<number>();
  let handled = 0;
  const start = performance.now();
  const worker = dibs.queue(name).work(
    () => {
      if (++handled === count) all.resolve(performance.now() - start);
    },
    { concurrency: 100, prefetch: ahead },
  );
  const taken = await all.promise;
  await worker.stop();
  return taken;
}
