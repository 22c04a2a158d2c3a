// The simulation by hand. One seed, with every step:  npm run simulate -- --seed 123
// Many, in silence, until one fails:                  npm run simulate -- --seeds 100000 --from 1

import { parseArgs } from "node:util";
import { simulate, SimulationFailure } from "./simulation.ts";

const { values } = parseArgs({
  options: { seed: { type: "string" }, seeds: { type: "string" }, from: { type: "string" } },
});

try {
  if (values.seed !== undefined) simulate({ seed: Number(values.seed), trace: (line) => console.log(line) });
  else runMany(Number(values.from ?? 1), Number(values.seeds ?? 10_000));
} catch (error) {
  if (!(error instanceof SimulationFailure)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}

function runMany(from: number, count: number): void {
  const started = performance.now();
  let operations = 0;
  for (let seed = from; seed < from + count; seed++) {
    operations += simulate({ seed }).operations;
    if ((seed - from + 1) % 1_000 === 0) report(seed - from + 1);
  }
  report(count);

  function report(done: number): void {
    const seconds = (performance.now() - started) / 1_000;
    console.log(`${done} seeds, ${operations} operations, ${(done / seconds).toFixed(0)} seeds/s`);
  }
}
