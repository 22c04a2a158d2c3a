import { inFlight, payload, seconds } from "../measure.ts";
import { rate, type Scenario } from "../scenario.ts";

const IN_FLIGHT = 500;

export const add: Scenario = {
  name: "add",
  about: "100,000 tasks, one call a task, 500 calls under way",
  needs: [],
  warmUp: true,
  async run(bench) {
    const queue = await bench.connect("add");
    const count = bench.size(100_000, 2_000);
    const taken = await seconds(() => inFlight(count, IN_FLIGHT, (n) => queue.add(payload(n))));
    return [rate("one call a task, 500 in flight", count / taken)];
  },
};
