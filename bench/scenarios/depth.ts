import { addTasks, compareDepths } from "../deep.ts";
import type { Scenario } from "../scenario.ts";

export const depth: Scenario = {
  name: "depth",
  about:
    "20,000 tasks drained (concurrency 100, 200 fetched ahead) with 20 thousand and 2 million waiting, and with --long 10 million; the memory is the most that the worker's process had",
  needs: "dibs",
  run(bench) {
    const drained = bench.size(20_000, 1_000);
    const depths = [
      { label: "20 thousand waiting", count: drained },
      { label: "2 million waiting", count: bench.size(2_000_000, 10_000) },
    ];
    if (bench.settings.long) {
      depths.push({ label: "10 million waiting", count: bench.size(10_000_000, 20_000) });
    }
    return compareDepths(
      bench,
      "depth",
      drained,
      depths.map(({ label, count }) => ({ label, make: (dibs) => addTasks(dibs, count) })),
    );
  },
};
