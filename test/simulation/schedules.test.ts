import { afterAll, expect, test } from "vitest";
import { endSubjects } from "./postgres.ts";
import { simulateSchedules } from "./schedules.ts";

// As many as fit in a few seconds. More manually: npm run simulate -- --schedules --seeds 10000
const SEEDS = { sqlite: 60, postgres: 15 };

test.each(["sqlite", "postgres"] as const)(
  "on %s each firing time of a schedule is fired once",
  async (engine) => {
    let fired = 0;
    for (let seed = 1; seed <= SEEDS[engine]; seed++) {
      fired += (await simulateSchedules({ seed, engine })).fired;
    }
    expect(fired).toBeGreaterThan(SEEDS[engine]);
  },
);

afterAll(endSubjects);
