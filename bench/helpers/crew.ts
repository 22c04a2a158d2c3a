// Several workers of one process, each with a handler that takes a while.

import { setTimeout as sleep } from "node:timers/promises";
import { open } from "../../src/index.ts";
import { helperTask, say } from "../helper.ts";
import { now } from "../measure.ts";
import type { CrewReport, CrewTask } from "../scenarios/scaling.ts";

const { path, queue, workers, handlerMs, prefetch } = helperTask() as CrewTask;
const dibs = await open(path);
let handled = 0;
const crew = Array.from({ length: workers }, () =>
  dibs.queue(queue).work(
    async () => {
      await sleep(handlerMs);
      handled++;
    },
    { prefetch },
  ),
);
await Promise.all(crew.map((worker) => worker.ready));
process.on("message", () => say({ handled, at: now() } satisfies CrewReport));
say("ready");
