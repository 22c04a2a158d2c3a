import { addTasks, compareDepths } from "../deep.ts";
import type { Scenario } from "../scenario.ts";

const TASKS_OF_A_GROUP = 20;

export const groups: Scenario = {
  name: "groups",
  about: `20,000 tasks drained from 1,000 groups and from 100,000, each of ${TASKS_OF_A_GROUP} tasks whose turns are mixed`,
  needs: "dibs",
  run(bench) {
    const fewest = bench.size(1_000, 100);
    const depths = [
      { label: "1,000 groups", count: fewest },
      { label: "100,000 groups", count: bench.size(100_000, 1_000) },
    ];
    return compareDepths(
      bench,
      "groups",
      fewest * TASKS_OF_A_GROUP,
      depths.map(({ label, count }) => ({
        label,
        make: (dibs) => addTasks(dibs, count * TASKS_OF_A_GROUP, (n) => ({ groupKey: `group-${n % count}` })),
      })),
    );
  },
};
