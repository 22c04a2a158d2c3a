import { type Dibs, open } from "../../src/index.ts";
import { inFlight, payload, seconds } from "../measure.ts";
import { rate, type Scenario, times } from "../scenario.ts";
import { AHEAD } from "./drain.ts";

const CONCURRENCY = 100;
const ROUNDS = 3;

export const pipeline: Scenario = {
  name: "pipeline",
  about: `10,000 runs of three stages with no-op handlers, ${AHEAD} fetched ahead by each stage, against as many tasks of one queue; in turn, three times`,
  needs: "dibs",
  warmUp: true,
  async run(bench) {
    const count = bench.size(10_000, 500);
    const taken = { plain: 0, staged: 0 };
    for (let round = 0; round < ROUNDS; round++) {
      await using plain = await open(bench.path(`plain-${round}`));
      taken.plain += await drainPlain(plain, count);
      await using staged = await open(bench.path(`staged-${round}`));
      taken.staged += await drainStages(staged, count);
    }
    const all = count * ROUNDS;
    const tasks = (3 * all) / taken.staged;
    return [
      rate("plain drain", all / taken.plain),
      rate("tasks of three stages", tasks),
      rate("runs of three stages", all / taken.staged),
      times("tasks of stages against the plain drain", tasks / (all / taken.plain)),
      times("runs against the plain drain", taken.plain / taken.staged),
    ];
  },
};

async function drainPlain(dibs: Dibs, count: number): Promise<number> {
  const queue = dibs.queue("plain");
  await inFlight(count, 500, (n) => queue.add(payload(n)));
  const done = Promise.withResolvers<void>();
  let left = count;
  return seconds(async () => {
    const worker = queue.work(() => void (--left === 0 && done.resolve()), {
      ...{ concurrency: CONCURRENCY, prefetch: AHEAD },
    });
    await done.promise;
    await worker.stop();
  });
}

async function drainStages(dibs: Dibs, count: number): Promise<number> {
  const options = { concurrency: CONCURRENCY, prefetch: AHEAD };
  const done = Promise.withResolvers<void>();
  let left = count;
  const stages = dibs
    .pipeline("staged")
    .stage("one", (task) => task.data, options)
    .stage("two", (task) => task.data, options)
    .stage("three", () => void (--left === 0 && done.resolve()), options);
  await inFlight(count, 500, (n) => stages.add(payload(n)));
  return seconds(async () => {
    const worker = stages.work();
    await done.promise;
    await worker.stop();
  });
}
