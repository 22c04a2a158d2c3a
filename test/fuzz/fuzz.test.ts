// A short version of what `npm run fuzz` does a million times: CONTRIBUTING.md.

import { expect, onTestFinished, test } from "vitest";
import { freshSchema } from "../postgres/shared.ts";
import { Fuzz, type Store } from "./fuzz.ts";
import { isLong } from "../run/long.ts";

const rounds = Number(process.env["DIBS_ROUNDS"] ?? (isLong ? 4_000 : 15));
const from = Number(process.env["DIBS_SEED"] ?? Math.floor(Math.random() * 1e6));

test.each<[string, () => Promise<Store>]>([
  ["SQLite", () => Promise.resolve({})],
  ["PostgreSQL", () => freshSchema((undo) => onTestFinished(undo))],
])(
  "bad requests, headers, messages and frames get only proper answers, with the store on %s",
  { timeout: 60_000 + rounds * 1_000 },
  async (_, makeStore) => {
    const fuzz = await Fuzz.start(await makeStore());
    onTestFinished(() => fuzz.stop());
    for (let round = 0; round < rounds; round++) {
      await fuzz.round(from + round).catch((error: unknown) => {
        throw new Error(`Again: DIBS_SEED=${from} DIBS_ROUNDS=${rounds} npm test -- test/fuzz`, {
          cause: error,
        });
      });
    }
    expect(fuzz.found.inputs).toBeGreaterThan(rounds * 30);
  },
);
