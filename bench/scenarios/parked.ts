import { addTasks, compareDepths } from "../deep.ts";
import type { Scenario } from "../scenario.ts";

export const parked: Scenario = {
  name: "parked",
  about: "20,000 tasks drained beside 5,000 and beside 500,000 that are not due today",
  needs: "dibs",
  run(bench) {
    const drained = bench.size(20_000, 1_000);
    const depths = [
      { label: "5,000 delayed parked", count: bench.size(5_000, 100) },
      { label: "500,000 delayed parked", count: bench.size(500_000, 10_000) },
    ];
    return compareDepths(
      bench,
      "parked",
      drained,
      depths.map(({ label, count }) => ({
        label,
        async make(dibs) {
          await addTasks(dibs, count, () => ({ delay: "1d" }));
          await addTasks(dibs, drained);
        },
      })),
    );
  },
};
