import { open } from "../../src/index.ts";
import { inBatches, inFlight, payloads } from "../measure.ts";
import { rate, type Scenario, times } from "../scenario.ts";

export const queues: Scenario = {
  name: "queues",
  about:
    "20,000 tasks in 1,000 queues, served in turn by one worker (concurrency 100, 200 fetched ahead), and the same in one queue",
  needs: "dibs",
  async run(bench) {
    const many = bench.size(1_000, 50);
    const one = await drainOver(bench.path("one"), 1, many * 20);
    const over = await drainOver(bench.path("many"), many, 20);
    return [rate("one queue", one), rate("1,000 queues", over), times("1,000 against one", over / one)];
  },
};

async function drainOver(path: string, queueCount: number, tasksEach: number): Promise<number> {
  await using dibs = await open(path);
  const names = Array.from({ length: queueCount }, (_, i) => `queue-${i}`);
  await inFlight(queueCount, 100, (i) =>
    inBatches(tasksEach, 1_000, (first, length) =>
      dibs.queue(names[i]!).addMany(payloads(length, first).map((data) => ({ data }))),
    ),
  );
  const count = queueCount * tasksEach;
  const all = Promise.withResolvers<void>();
  let handled = 0;
  const start = performance.now();
  const worker = dibs.work(
    names,
    () => {
      if (++handled === count) all.resolve();
    },
    { order: "fair", concurrency: 100, prefetch: 200 },
  );
  await all.promise;
  await worker.stop();
  return count / ((performance.now() - start) / 1_000);
}
