import { expect, test } from "vitest";
import { crashEverywhere } from "./flows/crashes.ts";

// More by hand, and on PostgreSQL: npm run simulate -- --flows --seeds 1000 --engine sqlite
test.each(["memory", "sqlite"] as const)(
  "steps, signals and verdicts come to their end on %s, wherever a process dies",
  { timeout: 120_000 },
  async (engine) => {
    let runs = 0;
    for (let seed = 1; seed <= 12; seed++) runs += (await crashEverywhere({ seed, engine })).runs;
    expect(runs).toBeGreaterThan(100);
  },
);
