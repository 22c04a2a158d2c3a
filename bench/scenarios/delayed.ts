import { inFlight, mean, payload, percentile, until } from "../measure.ts";
import { ms, type Scenario } from "../scenario.ts";

const SPACING_MS = 4;
/** Time to add them all before the first is due. */
const HEAD_START_MS = 1_000;

export const delayed: Scenario = {
  name: "delayed",
  about: "500 tasks, due one after another over 2 s: how late their handlers start, and never early",
  needs: ["delay"],
  async run(bench) {
    const queue = await bench.connect("delayed");
    const lateness: number[] = [];
    const consumer = await queue.work(({ n }) => void lateness.push(Date.now() - n), {
      concurrency: 100,
      ahead: 0,
    });
    const count = bench.size(500, 100);
    const first = Date.now() + HEAD_START_MS;
    await inFlight(count, count, (i) => {
      const runAt = first + i * SPACING_MS;
      return queue.add(payload(runAt), { runAt });
    });
    await until(() => lateness.length >= count);
    await consumer.settled();
    await consumer.stop();
    const earliest = Math.min(...lateness);
    if (earliest < 0) throw new Error(`A task was handled ${-earliest} ms before it was due.`);
    return [ms("mean lateness", mean(lateness)), ms("p99 lateness", percentile(lateness, 0.99))];
  },
};
