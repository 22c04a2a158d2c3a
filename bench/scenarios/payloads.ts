import { drainRate, inFlight, payload, seconds } from "../measure.ts";
import { type Figure, rate, type Scenario } from "../scenario.ts";

const KIB = 1_024;
const SIZES = [
  { kib: 1, full: 20_000, short: 200 },
  { kib: 64, full: 2_000, short: 50 },
  { kib: 256, full: 500, short: 20 },
];

export const payloadSizes: Scenario = {
  name: "payloads",
  about:
    "payloads of 1, 64 and 256 KiB: added with 50 calls under way, then drained (concurrency 10, nothing fetched ahead)",
  needs: [],
  warmUp: true,
  async run(bench) {
    const figures: Figure[] = [];
    for (const { kib, full, short } of SIZES) {
      const queue = await bench.connect(`payloads-${kib}`);
      const count = bench.size(full, short);
      const data = payload(0, kib * KIB);
      const taken = await seconds(() => inFlight(count, 50, () => queue.add(data)));
      figures.push(rate(`add, ${kib} KiB`, count / taken));
      const perSecond = await drainRate(queue, count, { concurrency: 10, ahead: 0 });
      figures.push(rate(`drain, ${kib} KiB`, perSecond));
    }
    return figures;
  },
};
