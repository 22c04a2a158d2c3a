import { open } from "../../src/index.ts";
import { inBatches, inFlight, payloads } from "../measure.ts";
import { rate, type Scenario, times } from "../scenario.ts";

export const queues: Scenario = {
  name: "queues",
  about:
    "20,000 tasks in one queue, in 1,000 queues, and in one of 1,000, served in turn by one worker (concurrency 100, 200 fetched ahead)",
  needs: "dibs",
  async run(bench) {
    const many = bench.size(1_000, 50);
    const names = Array.from({ length: many }, (_, i) => `queue-${i}`);
    const last = names.slice(-1);
    const one = await drainOver(bench.path("one"), last, last, many * 20);
    const over = await drainOver(bench.path("many"), names, names, 20);
    const single = await drainOver(bench.path("single"), names, last, many * 20);
    return [
      rate("one queue", one),
      rate("1,000 queues", over),
      times("1,000 against one", over / one),
      rate("1,000 queues, one with tasks", single),
      times("1,000, one with tasks, against one", single / one),
    ];
  },
};

/** `filled`: those of the queues that get tasks. */
async function drainOver(
  path: string,
  names: readonly string[],
  filled: readonly string[],
  tasksEach: number,
): Promise<number> {
  await using dibs = await open(path);
  await inFlight(filled.length, 100, (i) =>
    inBatches(tasksEach, 1_000, (first, length) =>
      dibs.queue(filled[i]!).addMany(payloads(length, first).map((data) => ({ data }))),
    ),
  );
  const count = filled.length * tasksEach;
  const all = Promise.withResolvers<void>();
  let handled = 0;
  const start = performance.now();
  const worker = dibs.work(
    [...names],
    () => {
      if (++handled === count) all.resolve();
    },
    { order: "fair", concurrency: 100, prefetch: 200 },
  );
  await all.promise;
  await worker.stop();
  return count / ((performance.now() - start) / 1_000);
}
