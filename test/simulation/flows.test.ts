import { expect, test } from "vitest";
import { crashEverywhere } from "./flows/crashes.ts";

// More by hand, and on PostgreSQL: npm run simulate -- --flows --seeds 1000 --engine sqlite
// A new file takes SQLite longer than a flow: there some of the crashes are tried.
test.each([{ engine: "memory" }, { engine: "sqlite", most: 10 }] as const)(
  "steps, signals and verdicts come to their end on $engine, wherever a process dies",
  { timeout: 120_000 },
  async (options) => {
    let runs = 0;
    for (let seed = 1; seed <= 12; seed++) runs += (await crashEverywhere({ seed, ...options })).runs;
    expect(runs).toBeGreaterThan(100);
  },
);
