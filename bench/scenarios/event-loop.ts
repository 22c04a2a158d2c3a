import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { open } from "../../src/index.ts";
import { payload } from "../measure.ts";
import { ms, rate, type Scenario } from "../scenario.ts";

const PER_SECOND = 50_000;
const MOST_IN_FLIGHT = 500;
/** Interval of the monitor's timer. It records the time between two ticks. */
const TICK_MS = 1;

export const eventLoop: Scenario = {
  name: "event-loop",
  about: `a process adds ${PER_SECOND.toLocaleString("en")} tasks/s, then also handles them (concurrency 100, 200 fetched ahead): how late its timers are meanwhile, and how many pass`,
  needs: "dibs",
  // Otherwise it would measure how long V8 takes to compile the code and to grow its heap.
  warmUp: true,
  async run(bench) {
    await using dibs = await open(bench.path("event-loop"));
    const queue = dibs.queue("event-loop");
    const forMs = bench.size(5_000, 300);
    const adding = await watch(() => addSteadily(forMs, () => queue.add(payload())));
    await queue.purge();

    let handled = 0;
    const worker = queue.work(() => void handled++, { concurrency: 100, prefetch: 200 });
    await worker.ready;
    const both = await watch(async () => {
      await addSteadily(forMs, () => queue.add(payload()));
      return handled;
    });
    await worker.stop();
    return [
      ms("adding: p99 delay", adding.delay),
      rate("adding: added meanwhile", adding.perSecond),
      ms("adding and handling: p99 delay", both.delay),
      rate("adding and handling: handled meanwhile", both.perSecond),
    ];
  },
};

/** How late timers are, and how many tasks pass a second, while `work` runs; it returns their number. */
async function watch(work: () => Promise<number>): Promise<{ delay: number; perSecond: number }> {
  const monitor = monitorEventLoopDelay({ resolution: TICK_MS });
  monitor.enable();
  const start = performance.now();
  const done = await work();
  const taken = (performance.now() - start) / 1_000;
  monitor.disable();
  return { delay: Math.max(0, monitor.percentile(99) / 1e6 - TICK_MS), perSecond: done / taken };
}

/** Keeps the pace as long as the store does: with too many calls in flight it waits. */
async function addSteadily(forMs: number, add: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  let added = 0;
  const underWay = new Set<Promise<unknown>>();
  for (let passed = 0; passed < forMs; passed = performance.now() - start) {
    const due = Math.floor((passed * PER_SECOND) / 1_000);
    for (; added < due && underWay.size < MOST_IN_FLIGHT; added++) {
      const call: Promise<unknown> = add().finally(() => underWay.delete(call));
      underWay.add(call);
    }
    await sleep(1);
  }
  await Promise.all(underWay);
  return added;
}
