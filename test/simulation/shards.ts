import { expect, test } from "vitest";
import { simulate } from "./simulation.ts";

/** Seeds of one test: a failure names its own, so that this only sets how much is reported as one line. */
const STEP = 100;

/** Declares the tests of one file. There are several files so that vitest can run them side by side. */
export function simulateSeeds(from: number, to: number): void {
  for (let first = from; first <= to; first += STEP) {
    const last = Math.min(first + STEP - 1, to);
    test(`seeds ${first} to ${last} keep every guarantee`, { timeout: 120_000 }, () => {
      let operations = 0;
      for (let seed = first; seed <= last; seed++) operations += simulate({ seed }).operations;
      expect(operations).toBeGreaterThan(STEP);
    });
  }
}
