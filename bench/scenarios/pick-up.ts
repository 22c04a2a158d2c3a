import { fork } from "node:child_process";
import { once } from "node:events";
import { open } from "../../src/index.ts";
import { percentile, type Scenario } from "../scenario.ts";

/** From just before `add` in this process until the handler starts in another one, which is idle. */
export const pickUp: Scenario = {
  name: "pick-up across processes",
  unit: "ms",
  higherIsBetter: false,
  async run({ storePath, scale }) {
    await using dibs = await open(storePath);
    const queue = dibs.queue<number>("bench");
    const child = fork(new URL("pick-up-worker.ts", import.meta.url), [storePath]);
    try {
      await once(child, "message");
      const latencies: number[] = [];
      for (let i = 0; i < Math.ceil(300 * scale); i++) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        const picked = once(child, "message");
        await queue.add(now());
        latencies.push((await picked)[0] as number);
      }
      return { p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99) };
    } finally {
      child.kill();
      await once(child, "exit");
    }
  },
};

/** Milliseconds on the machine's monotonic clock, the same in every process. */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
