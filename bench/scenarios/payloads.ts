import { drainRate, inFlight, payload, seconds } from "../measure.ts";
import { type Figure, rate, type Scenario } from "../scenario.ts";

const KIB = 1_024;
const SIZES = [
  { kib: 1, full: 20_000, short: 200 },
  { kib: 64, full: 2_000, short: 50 },
  { kib: 256, full: 500, short: 20 },
];
/** A program that waits for most of its calls, and one that has enough of them under way. */
const LOADS = [
  { calls: 10, concurrency: 10 },
  { calls: 200, concurrency: 100 },
];

export const payloadSizes: Scenario = {
  name: "payloads",
  about:
    "payloads of 1, 64 and 256 KiB: added with 10 and with 200 calls under way, then drained at concurrency 10 and 100 with default prefetch",
  needs: [],
  warmUp: true,
  async run(bench) {
    const figures: Figure[] = [];
    for (const { kib, full, short } of SIZES) {
      const count = bench.size(full, short);
      const data = payload(0, kib * KIB);
      for (const { calls, concurrency } of LOADS) {
        const queue = await bench.connect(`payloads-${kib}-${concurrency}`);
        const taken = await seconds(() => inFlight(count, calls, () => queue.add(data)));
        figures.push(rate(`add, ${kib} KiB, ${calls} in flight`, count / taken));
        const perSecond = await drainRate(queue, count, { concurrency });
        figures.push(rate(`drain, ${kib} KiB, concurrency ${concurrency}`, perSecond));
      }
    }
    return figures;
  },
};
