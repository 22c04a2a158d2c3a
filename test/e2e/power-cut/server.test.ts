import { describe } from "vitest";
import { MortalDisk, whyNoMortalDisk } from "../harness/mortal-disk.ts";
import { type Stage, test } from "../harness/stage.ts";
import { judge } from "../kill/verdict.ts";
import { isLong } from "../../run/long.ts";
import { ServedStage } from "../server/served-stage.ts";
import { cutRepeatedly } from "./cuts.ts";
import { FileMachine } from "./file-machine.ts";

const cuts = Number(process.env["DIBS_CUTS"] ?? (isLong ? 10 : 1));
const seed = Number(process.env["DIBS_SEED"] ?? Math.floor(Math.random() * 1e6));
const why = await whyNoMortalDisk();

/** The server and its file. Its clients are on other machines. */
class ServerMachine extends FileMachine {
  override readonly hasPrograms = false;
  #served: ServedStage | undefined;

  async start(stage: Stage): Promise<void> {
    this.#served = await ServedStage.start(stage);
  }

  override async cut(): Promise<void> {
    await super.cut([this.#served!.program]);
  }

  override async resume(): Promise<void> {
    await this.#served!.restart();
  }
}

describe.skipIf(why)(`a server whose machine loses its power${why ? `, not here: ${why}` : ""}`, () => {
  test(
    `${cuts} cuts of a server's power: nothing that was acknowledged is lost, and no fence is given twice`,
    { timeout: 120_000 + cuts * 20_000 },
    async ({ stage, onTestFailed }) => {
      onTestFailed(() => {
        console.error(
          `Seed ${seed} failed. Again: DIBS_SEED=${seed} DIBS_CUTS=${cuts} npm test -- test/e2e/power-cut/server`,
        );
      });
      const machine = new ServerMachine(stage, await MortalDisk.on(stage));
      await machine.start(stage);
      const { entries } = await cutRepeatedly(stage, machine, cuts, seed);
      const findings = await judge(await stage.open(), entries);
      if (isLong) console.log({ seed, cuts, ...findings });
    },
  );
});
