import type { QueueOptions } from "../../src/index.ts";
import { addTasks, compareDepths, type Depth, QUEUE } from "../deep.ts";
import type { Scenario } from "../scenario.ts";

/** So high that no limit is ever reached: this measures the cost of counting. */
const NEVER = 1_000_000;

const POLICIES: readonly { label: string; keyed: boolean; options: QueueOptions }[] = [
  { label: "plain", keyed: false, options: {} },
  { label: "maxConcurrency", keyed: false, options: { maxConcurrency: NEVER } },
  { label: "rateLimit", keyed: false, options: { rateLimit: { max: NEVER, per: "1m" } } },
  { label: "100,000 keys", keyed: true, options: {} },
  { label: "keys, concurrency", keyed: true, options: { groups: { concurrency: 10 } } },
  { label: "keys, fair", keyed: true, options: { groups: { fair: true, concurrency: 10 } } },
  { label: "keys, sticky", keyed: true, options: { groups: { sticky: true } } },
  { label: "keys, rate", keyed: true, options: { groups: { rateLimit: { max: NEVER, per: "1m" } } } },
];

export const limits: Scenario = {
  name: "limits",
  about:
    "20,000 tasks drained without limits, with limits of their queue, and of 100,000 keys with two tasks each",
  needs: "dibs",
  run(bench) {
    const drained = bench.size(20_000, 1_000);
    const keys = bench.size(100_000, 1_000);
    const depths = POLICIES.map(({ label, keyed, options }): Depth => ({
      label,
      async make(dibs) {
        await dibs.queue(QUEUE, options).ready;
        await (keyed
          ? addTasks(dibs, keys * 2, (n) => ({ groupKey: `key-${n % keys}` }))
          : addTasks(dibs, drained * 2));
      },
    }));
    return compareDepths(bench, "limits", drained, depths);
  },
};
