import { describe, expect } from "vitest";
import { MortalDisk, whyNoMortalDisk } from "../harness/mortal-disk.ts";
import { test } from "../harness/stage.ts";
import { judge } from "../kill/verdict.ts";
import { isLong } from "../../run/long.ts";
import { cutRepeatedly } from "./cuts.ts";
import { FileMachine } from "./file-machine.ts";

const cuts = Number(process.env["DIBS_CUTS"] ?? (isLong ? 50 : 3));
const seed = Number(process.env["DIBS_SEED"] ?? Math.floor(Math.random() * 1e6));
const why = await whyNoMortalDisk();

describe.skipIf(why)(
  `processes on a file whose machine loses its power${why ? `, not here: ${why}` : ""}`,
  () => {
    test(
      `${cuts} cuts: nothing that was acknowledged is lost, and no fence is given twice`,
      { timeout: 120_000 + cuts * 20_000 },
      async ({ stage, onTestFailed }) => {
        onTestFailed(() => {
          console.error(
            `Seed ${seed} failed. Again: DIBS_SEED=${seed} DIBS_CUTS=${cuts} npm test -- test/e2e/power-cut/sqlite`,
          );
        });
        const machine = new FileMachine(stage, await MortalDisk.on(stage));
        const { entries, ...aftermath } = await cutRepeatedly(stage, machine, cuts, seed);
        const dibs = await stage.open();
        const findings = await judge(dibs, entries);
        expect(findings.lostAttempts).toBeGreaterThan(0);
        if (isLong) console.log({ seed, cuts, ...aftermath, ...findings });
      },
    );
  },
);
