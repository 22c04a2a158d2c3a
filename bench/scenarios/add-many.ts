import { inFlight, payloads, seconds } from "../measure.ts";
import { rate, type Scenario } from "../scenario.ts";

const BATCH = 500;

export const addMany: Scenario = {
  name: "add-many",
  about: "100,000 tasks in batches of 500, four batches under way",
  needs: ["addMany"],
  warmUp: true,
  async run(bench) {
    const queue = await bench.connect("add-many");
    const batches = bench.size(200, 4);
    const batch = payloads(BATCH);
    const taken = await seconds(() => inFlight(batches, 4, () => queue.addMany!(batch)));
    return [rate("batches of 500", (batches * BATCH) / taken)];
  },
};
