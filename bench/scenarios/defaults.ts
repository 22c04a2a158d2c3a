import { drainRate, inFlight, payload, seconds } from "../measure.ts";
import { type Figure, rate, type Scenario } from "../scenario.ts";

export const defaults: Scenario = {
  name: "defaults",
  about:
    "no option set but the number of handlers: 50,000 tasks added with 500 calls under way, then drained by a no-op handler, each acked on its own",
  needs: [],
  warmUp: true,
  async run(bench) {
    const count = bench.size(50_000, 1_000);
    const adds: number[] = [];
    const drains: Figure[] = [];
    for (const concurrency of [100, 10, 1]) {
      const queue = await bench.connect(`defaults-${concurrency}`);
      adds.push(count / (await seconds(() => inFlight(count, 500, (n) => queue.add(payload(n))))));
      drains.push(rate(`drain, concurrency ${concurrency}`, await drainRate(queue, count, { concurrency })));
    }
    // The first queue is added to by a process that is still warming up.
    return [rate("add, 500 in flight", Math.max(...adds)), ...drains];
  },
};
