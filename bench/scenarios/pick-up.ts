import { setTimeout as sleep } from "node:timers/promises";
import { startConsumer } from "../consumers.ts";
import { now, payload, percentile } from "../measure.ts";
import { ms, type Scenario } from "../scenario.ts";

export const pickUp: Scenario = {
  name: "pick-up",
  about:
    "from just before a task is added in one process until its handler starts in another, which is idle; 300 tasks, one at a time",
  needs: ["wakes"],
  async run(bench) {
    const queue = await bench.connect("pick-up");
    await using consumer = await startConsumer(bench, "pick-up", {
      concurrency: 1,
      ahead: 0,
      reports: "delay",
    });
    const delays: number[] = [];
    for (let i = 0; i < bench.size(300, 20); i++) {
      await sleep(5);
      const picked = consumer.next<number>();
      await queue.add(payload(now()));
      delays.push(await picked);
    }
    return [ms("p50", percentile(delays, 0.5)), ms("p99", percentile(delays, 0.99))];
  },
};
