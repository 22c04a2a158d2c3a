import { setTimeout as sleep } from "node:timers/promises";
import { open } from "../../src/index.ts";
import { addTasks, makeStore, QUEUE } from "../deep.ts";
import { Helper } from "../helper.ts";
import { seconds } from "../measure.ts";
import { type Figure, ms, type Scenario } from "../scenario.ts";

export interface BusyTask {
  path: string;
  queue: string;
}

export const startUp: Scenario = {
  name: "start-up",
  about:
    "open() and a first claim on a file with 2 million tasks, and again after kill -9 of a process that was adding and working on it",
  needs: "dibs",
  async run(bench) {
    const count = bench.size(2_000_000, 10_000);
    const path = await bench.prepared("start-up", (path) => makeStore(path, (dibs) => addTasks(dibs, count)));
    const figures = await openAndClaim(path, "2 million tasks");
    const busy = await Helper.start(new URL("../helpers/busy.ts", import.meta.url), {
      path,
      queue: QUEUE,
    } satisfies BusyTask);
    await sleep(bench.size(3_000, 300));
    await busy.kill();
    return [...figures, ...(await openAndClaim(path, "after kill -9"))];
  },
};

async function openAndClaim(path: string, label: string): Promise<Figure[]> {
  const start = performance.now();
  await using dibs = await open(path);
  const opened = performance.now() - start;
  const claiming = await seconds(async () => {
    const [claim] = await dibs.queue(QUEUE).claim();
    if (claim === undefined) throw new Error("There was nothing to claim.");
  });
  return [ms(`${label}: open`, opened), ms(`${label}: open and a first claim`, opened + claiming * 1_000)];
}
