import { type Dibs, open } from "../../src/index.ts";
import { PAYLOAD, type Scenario, seconds } from "../scenario.ts";

const CONCURRENCIES = [100, 10, 1];

export const drain: Scenario = {
  name: "drain",
  unit: "tasks/s",
  higherIsBetter: true,
  async run({ storePath, scale }) {
    await using dibs = await open(storePath);
    const count = Math.ceil(50_000 * scale);
    const figures: Record<string, number> = {};
    for (const concurrency of CONCURRENCIES) {
      const taken = await drainOnce(dibs, count, concurrency);
      figures[`no-op handler, concurrency ${concurrency}`] = count / taken;
    }
    return figures;
  },
};

/** Each task is acked on its own; what is fetched ahead keeps the handlers fed. */
async function drainOnce(dibs: Dibs, count: number, concurrency: number): Promise<number> {
  const queue = dibs.queue(`bench-${concurrency}`);
  for (let added = 0; added < count; added += 1_000) {
    await queue.addMany(Array.from({ length: Math.min(1_000, count - added) }, () => ({ data: PAYLOAD })));
  }
  const all = Promise.withResolvers<void>();
  let handled = 0;
  return seconds(async () => {
    const worker = queue.work(
      () => {
        if (++handled === count) all.resolve();
      },
      { concurrency, prefetch: 200 },
    );
    await all.promise;
    await worker.stop();
  });
}
