import Database from "better-sqlite3";
import { describe, expect } from "vitest";
import { test } from "../harness/stage.ts";
import { storm } from "./storm.ts";
import { judge } from "./verdict.ts";
import { isLong } from "../../run/long.ts";

// DIBS_KILLS sets another number.
const kills = Number(process.env["DIBS_KILLS"] ?? (isLong ? 240 : 20));
const seed = Number(process.env["DIBS_SEED"] ?? Math.floor(Math.random() * 1e6));

describe("processes that are killed at random times", () => {
  test(
    `${kills} kills: every task whose add resolved ends exactly once`,
    { timeout: 120_000 + kills * 4_000 },
    async ({ stage, onTestFailed }) => {
      onTestFailed(() => {
        console.error(
          `Seed ${seed} failed. Again: DIBS_SEED=${seed} DIBS_KILLS=${kills} npm test -- test/e2e/kill`,
        );
      });
      const { entries, ...storms } = await storm(stage, kills, seed);
      const dibs = await stage.open();
      const findings = await judge(dibs, entries);
      expect(storms.kills).toBeGreaterThanOrEqual(kills);
      // The kills did lose work: otherwise the test proves nothing.
      expect(findings.lostAttempts).toBeGreaterThan(0);
      if (isLong) {
        expect(findings.refused).toBeGreaterThan(0);
        console.log({ seed, ...storms, ...findings });
      }
      await dibs.close();
      const db = new Database(stage.file);
      expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
      db.close();
    },
  );
});
