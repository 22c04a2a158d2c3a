import { afterAll, expect, test } from "vitest";
import { crashEverywhere } from "./flows/crashes.ts";
import { crashPipelines } from "./flows/pipelines.ts";
import { endSubjects } from "./postgres.ts";
import { isLong } from "../run/long.ts";
import { eachSeed } from "./shards.ts";

// As on the other stores (flows.test.ts), where a commit takes longer. More runs manually:
// npm run simulate -- --flows --seeds 1000 --engine postgres; and with --pipelines.
const [seeds, most] = isLong ? [40, 20] : [6, 5];

afterAll(endSubjects);

test(
  "steps, signals and verdicts complete on postgres, wherever a process dies",
  { timeout: 120_000 + seeds * 10_000 },
  async ({ signal }) => {
    let runs = 0;
    await eachSeed([1, seeds], signal, async (seed) => {
      runs += (await crashEverywhere({ seed, engine: "postgres", most })).runs;
    });
    expect(runs).toBeGreaterThan(seeds * 4);
  },
);

test(
  "runs of a pipeline complete on postgres, stage by stage and joined once, wherever a process dies",
  { timeout: 120_000 + seeds * 10_000 },
  async ({ signal }) => {
    let runs = 0;
    await eachSeed([1, seeds], signal, async (seed) => {
      runs += (await crashPipelines({ seed, engine: "postgres", most })).runs;
    });
    expect(runs).toBeGreaterThan(seeds * 4);
  },
);
