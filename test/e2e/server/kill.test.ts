import Database from "better-sqlite3";
import { describe, expect } from "vitest";
import { open } from "../../../src/index.ts";
import { test } from "../harness/stage.ts";
import { storm } from "../kill/storm.ts";
import { judge } from "../kill/verdict.ts";
import { ServedStage } from "./served-stage.ts";
import { isLong } from "../../run/long.ts";

// As on a file (e2e/kill/sqlite.test.ts), but all clients share a server, which is killed this often. Its clients are
// killed a few times too.
const serverKills = Number(process.env["DIBS_KILLS"] ?? (isLong ? 50 : 4));
const seed = Number(process.env["DIBS_SEED"] ?? Math.floor(Math.random() * 1e6));

describe("a server that is killed under load, and so are its clients", () => {
  test(
    `${serverKills} kills of the server: every task whose add resolved ends exactly once`,
    { timeout: 90_000 + serverKills * 8_000 },
    async ({ stage, onTestFailed }) => {
      onTestFailed(() => {
        console.error(
          `Seed ${seed} failed. Again: DIBS_SEED=${seed} DIBS_KILLS=${serverKills} npm test -- test/e2e/server/kill`,
        );
      });
      const file = stage.file;
      const served = await ServedStage.start(stage);
      const readyAfter: number[] = [];
      const killServer = async (): Promise<void> => {
        await served.program.kill();
        readyAfter.push(await served.restart());
      };
      // Every kill of the server finds its clients working.
      const isEnough = (): boolean => readyAfter.length >= serverKills;
      const { entries, ...storms } = await storm(stage, serverKills, seed, killServer, isEnough);
      await served.program.stop();
      // Compares what the server answered with what is on disk.
      const dibs = await open(file);
      const findings = await judge(dibs, entries);
      expect(readyAfter.length).toBeGreaterThanOrEqual(serverKills);
      if (isLong) console.log({ seed, serverKills: readyAfter.length, readyAfter, ...storms, ...findings });
      await dibs.close();
      const db = new Database(file);
      expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
      db.close();
    },
  );
});
