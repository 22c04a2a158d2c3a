import { open } from "../../src/index.ts";
import { inBatches, payload } from "../measure.ts";
import { type Bench, rate, type Scenario, times } from "../scenario.ts";

type Job = "hold" | "fail" | "pass";

export const elsewhere: Scenario = {
  name: "elsewhere",
  about:
    "20,000 tasks drained by a worker (concurrency 100, 200 fetched ahead) that has failed 100 others of the queue, and " +
    "10,000: those wait in front for somebody else",
  needs: "dibs",
  async run(bench) {
    const few = await drainBehind(bench, "few", 100);
    const many = await drainBehind(bench, "many", bench.size(10_000, 500));
    return [
      rate("100 failed before", few),
      rate("10,000 failed before", many),
      times("10,000 against 100", many / few),
    ];
  },
};

async function drainBehind(bench: Bench, name: string, failures: number): Promise<number> {
  await using dibs = await open(bench.path(name));
  const queue = dibs.queue<{ job: Job }>("elsewhere", {
    elsewhere: "1h",
    backoff: { type: "fixed", delay: 0, jitter: 0 },
    maxAttempts: 10,
  });
  const add = (job: Job, count: number): Promise<void> =>
    inBatches(count, 1_000, (first, length) =>
      queue.addMany(Array.from({ length }, (_, i) => ({ data: { job, ...payload(first + i) } }))),
    );

  // Another worker is alive that could take the failed tasks, but it is busy all the time.
  const held = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const other = queue.work(async () => {
    held.resolve();
    await release.promise;
  });
  await add("hold", 1);
  await held.promise;

  const drained = bench.size(20_000, 1_000);
  const failed = Promise.withResolvers<void>();
  const passed = Promise.withResolvers<void>();
  let failing = 0;
  let passing = 0;
  const worker = queue.work(
    (task) => {
      if (task.data.job === "pass") {
        if (++passing === drained) passed.resolve();
        return;
      }
      if (++failing === failures) failed.resolve();
      throw new Error("not here");
    },
    { concurrency: 100, prefetch: 200 },
  );
  await add("fail", failures);
  await failed.promise;
  const start = performance.now();
  await add("pass", drained);
  await passed.promise;
  const seconds = (performance.now() - start) / 1_000;
  release.resolve();
  await Promise.all([worker.stop(), other.stop()]);
  return drained / seconds;
}
