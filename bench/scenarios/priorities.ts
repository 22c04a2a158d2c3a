import { drainRate, inFlight, payload } from "../measure.ts";
import { rate, type Scenario } from "../scenario.ts";
import { AHEAD } from "./drain.ts";

const LEVELS = 10;

export const priorities: Scenario = {
  name: "priorities",
  about: `50,000 tasks in ${LEVELS} priorities, mixed, drained as in "drain"`,
  needs: ["priority"],
  warmUp: true,
  async run(bench) {
    const queue = await bench.connect("priorities", { priorities: true });
    const count = bench.size(50_000, 1_000);
    await inFlight(count, 500, (n) => queue.add(payload(n), { priority: n % LEVELS }));
    return [
      rate(
        "10 priorities, concurrency 100",
        await drainRate(queue, count, { concurrency: 100, ahead: AHEAD }),
      ),
    ];
  },
};
