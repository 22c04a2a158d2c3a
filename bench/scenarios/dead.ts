import type { Dibs } from "../../src/index.ts";
import { addTasks, compareBeside, QUEUE } from "../deep.ts";
import type { Scenario } from "../scenario.ts";

export const dead: Scenario = {
  name: "dead",
  about: "20,000 tasks drained beside 10,000 and beside a million dead letters of the same queue",
  needs: "dibs",
  run(bench) {
    const depths = [
      { label: "10,000 dead", count: bench.size(10_000, 100) },
      { label: "a million dead", count: bench.size(1_000_000, 5_000) },
    ];
    return compareBeside(bench, "dead", depths, async (dibs, count) => {
      await addTasks(dibs, count);
      await rejectAll(dibs);
    });
  },
};

async function rejectAll(dibs: Dibs): Promise<void> {
  const queue = dibs.queue(QUEUE);
  for (;;) {
    const claims = await queue.claim({ max: 1_000 });
    if (claims.length === 0) return;
    await Promise.all(claims.map((claim) => claim.reject(new Error("no good"))));
  }
}
