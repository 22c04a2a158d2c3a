import { open } from "../../src/index.ts";
import { inFlight, PAYLOAD, type Scenario, seconds } from "../scenario.ts";

export const add: Scenario = {
  name: "add",
  unit: "tasks/s",
  higherIsBetter: true,
  async run({ storePath, scale }) {
    await using dibs = await open(storePath);
    const queue = dibs.queue("bench");
    const count = Math.ceil(100_000 * scale);
    const oneByOne = await seconds(() => inFlight(count, 500, () => queue.add(PAYLOAD)));
    const batches = Math.ceil(count / 500);
    const batch = Array.from({ length: 500 }, () => ({ data: PAYLOAD }));
    const inBatches = await seconds(() => inFlight(batches, 4, () => queue.addMany(batch)));
    return {
      "one call a task, 500 in flight": count / oneByOne,
      "addMany of 500": (batches * 500) / inBatches,
    };
  },
};
