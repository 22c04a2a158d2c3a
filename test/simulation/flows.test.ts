import { expect, test } from "vitest";
import { crashEverywhere } from "./flows/crashes.ts";
import { crashPipelines } from "./flows/pipelines.ts";

// On PostgreSQL: flows-postgres.test.ts. More runs manually: npm run simulate -- --flows --seeds 1000 --engine sqlite
// Creating a file takes SQLite longer than a flow: there only some of the crashes are tried.
test.each([{ engine: "memory" }, { engine: "sqlite", most: 10 }] as const)(
  "steps, signals and verdicts complete on $engine, wherever a process dies",
  async (options) => {
    let runs = 0;
    for (let seed = 1; seed <= 12; seed++) runs += (await crashEverywhere({ seed, ...options })).runs;
    expect(runs).toBeGreaterThan(100);
  },
);

// More runs manually: npm run simulate -- --pipelines --seeds 1000 --engine sqlite
test.each(["memory", "sqlite"] as const)(
  "runs of a pipeline complete on %s, stage by stage and joined once, wherever a process dies",
  async (engine) => {
    let runs = 0;
    for (let seed = 1; seed <= 8; seed++) runs += (await crashPipelines({ seed, engine, most: 12 })).runs;
    expect(runs).toBeGreaterThan(50);
  },
);
