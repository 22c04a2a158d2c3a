import { monitorEventLoopDelay } from "node:perf_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";
import { open } from "../../src/index.ts";
import { payload } from "../measure.ts";
import { ms, rate, type Scenario } from "../scenario.ts";

const PER_SECOND = 50_000;
const MOST_IN_FLIGHT = 500;
/** The monitor's timer: what it records is the time between two of its ticks. */
const TICK_MS = 1;

export const eventLoop: Scenario = {
  name: "event-loop",
  about: `a process adds ${PER_SECOND.toLocaleString("en")} tasks/s and handles them itself (concurrency 100): how late its timers are meanwhile, and how many pass`,
  needs: "dibs",
  async run(bench) {
    await using dibs = await open(bench.path("event-loop"));
    const queue = dibs.queue("event-loop");
    let handled = 0;
    const worker = queue.work(() => void handled++, { concurrency: 100, prefetch: 200 });
    await worker.ready;
    const monitor = monitorEventLoopDelay({ resolution: TICK_MS });
    monitor.enable();
    const start = performance.now();
    const addMs = bench.size(5_000, 300);
    await addSteadily(addMs, () => queue.add(payload()));
    const taken = (performance.now() - start) / 1_000;
    const passed = handled;
    monitor.disable();
    await worker.stop();
    return [
      ms("p99 delay", Math.max(0, monitor.percentile(99) / 1e6 - TICK_MS)),
      rate("handled meanwhile", passed / taken),
    ];
  },
};

/** Keeps to the pace as long as the store does: with too many calls under way it waits. */
async function addSteadily(forMs: number, add: () => Promise<unknown>): Promise<void> {
  const start = performance.now();
  let added = 0;
  const underWay = new Set<Promise<unknown>>();
  for (let passed = 0; passed < forMs; passed = performance.now() - start) {
    const due = Math.floor((passed * PER_SECOND) / 1_000);
    for (; added < due && underWay.size < MOST_IN_FLIGHT; added++) {
      const call: Promise<unknown> = add().finally(() => underWay.delete(call));
      underWay.add(call);
    }
    await nextTurn();
  }
  await Promise.all(underWay);
}
