import { expect, test } from "vitest";
import { isLong } from "../run/long.ts";
import { simulate } from "./simulation.ts";
import type { EngineName } from "./subject.ts";

/** Seeds per test: a failure names its own seed, so this only sets how much is reported as one line. */
const STEP: Record<EngineName, number> = { sqlite: 50, postgres: 10 };

/** Seeds per file. More manually: npm run simulate -- --seeds 10000. */
const SEEDS: Record<EngineName, number> = isLong
  ? { sqlite: 5_000, postgres: 1_000 }
  : { sqlite: 200, postgres: 40 };

/** Declares the tests of one of several files: vitest runs files in parallel. Each file has its own seeds. */
export function simulateSeeds(file: number, engine: EngineName = "sqlite"): void {
  const step = STEP[engine];
  const [from, to] = [(file - 1) * SEEDS[engine] + 1, file * SEEDS[engine]];
  for (let first = from; first <= to; first += step) {
    const last = Math.min(first + step - 1, to);
    test(`seeds ${first} to ${last} keep every guarantee`, async ({ signal }) => {
      let operations = 0;
      await eachSeed([first, last], signal, async (seed) => {
        operations += (await simulate({ seed, engine })).operations;
      });
      expect(operations).toBeGreaterThan(step);
    });
  }
}

let previous: Promise<void> = Promise.resolve();

/**
 * Runs seeds one after the other, until the test is over: `signal` is aborted when it times out. Seeds of a file share a
 * schema, so the first seed of a test waits for the last one of the test before it.
 */
export async function eachSeed(
  [first, last]: [number, number],
  signal: AbortSignal,
  run: (seed: number) => Promise<void>,
): Promise<void> {
  await previous;
  const seeds = (async () => {
    for (let seed = first; seed <= last && !signal.aborted; seed++) await run(seed);
  })();
  previous = seeds.catch(() => {});
  await seeds;
}
