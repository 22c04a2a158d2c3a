// A little of what `npm run fuzz` does a million times: CONTRIBUTING.md.

import { expect, onTestFinished, test } from "vitest";
import { Fuzz } from "./fuzz.ts";

const rounds = Number(process.env["DIBS_ROUNDS"] ?? (process.env["DIBS_LONG"] ? 8_000 : 25));
const from = Number(process.env["DIBS_SEED"] ?? Math.floor(Math.random() * 1e6));

test(
  `${rounds} rounds of bad requests, headers, messages and frames get nothing but proper answers`,
  { timeout: 30_000 + rounds * 500 },
  async ({ onTestFailed }) => {
    onTestFailed(() => console.error(`Again: DIBS_SEED=${from} DIBS_ROUNDS=${rounds} npm test -- test/fuzz`));
    const fuzz = await Fuzz.start();
    onTestFinished(() => fuzz.stop());
    for (let round = 0; round < rounds; round++) await fuzz.round(from + round);
    expect(fuzz.found).toMatchObject({ failures: [] });
    expect(fuzz.found.inputs).toBeGreaterThan(rounds * 30);
  },
);
