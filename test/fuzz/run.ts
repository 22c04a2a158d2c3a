// The fuzzer by hand.  A million inputs:   npm run fuzz -- --inputs 1000000
// One round again, by its seed:            npm run fuzz -- --from 123 --rounds 1

import { parseArgs } from "node:util";
import { Fuzz } from "./fuzz.ts";

const { values } = parseArgs({
  options: {
    from: { type: "string", default: "1" },
    rounds: { type: "string" },
    inputs: { type: "string", default: "1000000" },
    /** Stops by then, and says with which seed to go on. */
    seconds: { type: "string", default: "3600" },
  },
});

const fuzz = await Fuzz.start();
const [began, from] = [performance.now(), Number(values.from)];
const isOver = (round: number): boolean =>
  values.rounds === undefined ? fuzz.found.inputs >= Number(values.inputs) : round >= Number(values.rounds);
const isLate = (): boolean => performance.now() - began > Number(values.seconds) * 1_000;

process.on("uncaughtException", (error) => {
  console.error(`A crash in round ${from + round}:`, error);
  process.exit(1);
});

let round = 0;
try {
  for (; !isOver(round) && !isLate(); round++) {
    await fuzz.round(from + round);
    if (round % 250 === 249) report();
  }
} finally {
  await fuzz.stop();
}
report();
console.log(`The next round is ${from + round}.`);

/** With --expose-gc the memory is what is held, and should not grow. */
function report(): void {
  globalThis.gc?.();
  const { heapUsed, rss } = process.memoryUsage();
  const mb = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(0)} MB`;
  const seconds = ((performance.now() - began) / 1_000).toFixed(0);
  console.log(seconds, "s", JSON.stringify(fuzz.found), `heap ${mb(heapUsed)}, rss ${mb(rss)}`);
}
