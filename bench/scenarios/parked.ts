import { addTasks, compareBeside } from "../deep.ts";
import type { Scenario } from "../scenario.ts";

export const parked: Scenario = {
  name: "parked",
  about: "20,000 tasks drained beside 5,000 and beside 500,000 that are not due today",
  needs: "dibs",
  run(bench) {
    const depths = [
      { label: "5,000 delayed parked", count: bench.size(5_000, 100) },
      { label: "500,000 delayed parked", count: bench.size(500_000, 10_000) },
    ];
    return compareBeside(bench, "parked", depths, (dibs, count) =>
      addTasks(dibs, count, () => ({ delay: "1d" })),
    );
  },
};
