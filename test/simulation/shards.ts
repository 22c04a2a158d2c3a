import { expect, test } from "vitest";
import { simulate } from "./simulation.ts";
import type { EngineName } from "./subject.ts";

/** Seeds of one test: a failure names its own, so that this only sets how much is reported as one line. */
const STEP: Record<EngineName, number> = { sqlite: 100, postgres: 10 };

/** Declares the tests of one file. There are several files so that vitest can run them side by side. */
export function simulateSeeds(from: number, to: number, engine: EngineName = "sqlite"): void {
  const step = STEP[engine];
  for (let first = from; first <= to; first += step) {
    const last = Math.min(first + step - 1, to);
    test(`seeds ${first} to ${last} keep every guarantee`, { timeout: 120_000 }, async () => {
      let operations = 0;
      for (let seed = first; seed <= last; seed++)
        operations += (await simulate({ seed, engine })).operations;
      expect(operations).toBeGreaterThan(step);
    });
  }
}
