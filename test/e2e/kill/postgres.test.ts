import { describe, expect } from "vitest";
import { PostgresServer, QUICK } from "../../postgres/server.ts";
import { test } from "../harness/stage.ts";
import { storm } from "./storm.ts";
import { judge } from "./verdict.ts";
import { isLong } from "../../run/long.ts";

// As on a file (sqlite.test.ts); in addition, the server is killed now and then.
const kills = Number(process.env["DIBS_KILLS"] ?? (isLong ? 240 : 15));
const seed = Number(process.env["DIBS_SEED"] ?? Math.floor(Math.random() * 1e6));

describe("processes on PostgreSQL that are killed at random times, and so is their server", () => {
  test(
    `${kills} kills: every task whose add resolved ends exactly once`,
    { timeout: 120_000 + kills * 8_000 },
    async ({ stage, onTestFailed }) => {
      onTestFailed(() => {
        console.error(
          `Seed ${seed} failed. Again: DIBS_SEED=${seed} DIBS_KILLS=${kills} npm test -- test/e2e/kill/postgres`,
        );
      });
      const server = await PostgresServer.start({ settings: QUICK });
      stage.onEnd(() => server.remove());
      stage.file = server.url;
      let restarts = 0;
      const { entries, ...storms } = await storm(stage, kills, seed, async () => {
        await server.stop("immediate");
        await server.restart();
        restarts++;
      });
      const dibs = await stage.open();
      const findings = await judge(dibs, entries);
      expect(storms.kills).toBeGreaterThanOrEqual(kills);
      expect(restarts).toBeGreaterThan(0);
      expect(findings.lostAttempts).toBeGreaterThan(0);
      if (isLong) console.log({ seed, restarts, ...storms, ...findings });
    },
  );
});
