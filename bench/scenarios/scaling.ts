import { setTimeout as sleep } from "node:timers/promises";
import { addTasks, makeStore, QUEUE } from "../deep.ts";
import { Helper } from "../helper.ts";
import { type Figure, rate, type Scenario, times } from "../scenario.ts";

const HANDLER_MS = 10;
const MOST_PROCESSES = 4;
/** One task is prefetched, so that a worker does not wait for the disk between two tasks. */
const PREFETCH = 2;

export interface CrewTask {
  path: string;
  queue: string;
  workers: number;
  handlerMs: number;
  prefetch: number;
}

export interface CrewReport {
  handled: number;
  /** When that was, in milliseconds that all processes share. */
  at: number;
}

export const scaling: Scenario = {
  name: "scaling",
  about: `1 to 64 workers with a handler of ${HANDLER_MS} ms and ${PREFETCH} tasks fetched ahead, over up to ${MOST_PROCESSES} processes, never short of tasks; what N do against N times what one does`,
  needs: "dibs",
  async run(bench) {
    const windowMs = bench.size(3_000, 300);
    const figures: Figure[] = [];
    let ofOne: number | undefined;
    for (const workers of bench.settings.short ? [1, 4] : [1, 2, 4, 8, 16, 32, 64]) {
      const path = bench.path(`scaling-${workers}`);
      // Twice what the window can take: some tasks are handled before it begins.
      const enough = Math.ceil((workers * 2 * (windowMs + 1_000)) / HANDLER_MS);
      await makeStore(path, (dibs) => addTasks(dibs, enough));
      const perSecond = await crewRate(path, workers, windowMs);
      ofOne ??= perSecond;
      figures.push(
        rate(`${workers} workers`, perSecond),
        times(`${workers} workers, against one each`, perSecond / (workers * ofOne)),
      );
    }
    return figures;
  },
};

async function crewRate(path: string, workers: number, windowMs: number): Promise<number> {
  const processes = Math.min(workers, MOST_PROCESSES);
  const task: CrewTask = {
    path,
    queue: QUEUE,
    workers: workers / processes,
    handlerMs: HANDLER_MS,
    prefetch: PREFETCH,
  };
  await using helpers = new AsyncDisposableStack();
  const crews = await Promise.all(
    Array.from({ length: processes }, async () =>
      helpers.use(await Helper.start(new URL("../helpers/crew.ts", import.meta.url), task)),
    ),
  );
  const before = await ask(crews);
  await sleep(windowMs);
  const after = await ask(crews);
  return after.reduce((sum, { handled, at }, i) => {
    const earlier = before[i]!;
    return sum + ((handled - earlier.handled) / (at - earlier.at)) * 1_000;
  }, 0);
}

function ask(crews: Helper[]): Promise<CrewReport[]> {
  return Promise.all(crews.map((crew) => crew.ask<CrewReport>("how many so far?")));
}
