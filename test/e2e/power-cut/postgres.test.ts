import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe } from "vitest";
import { type Dibs, open } from "../../../src/index.ts";
import { PostgresServer } from "../../postgres/server.ts";
import { MortalDisk, whyNoMortalDisk } from "../harness/mortal-disk.ts";
import { test } from "../harness/stage.ts";
import { judge } from "../kill/verdict.ts";
import { isLong } from "../../run/long.ts";
import { cutRepeatedly, type Machine } from "./cuts.ts";

const cuts = Number(process.env["DIBS_CUTS"] ?? (isLong ? 10 : 1));
const seed = Number(process.env["DIBS_SEED"] ?? Math.floor(Math.random() * 1e6));
const why = await whyNoMortalDisk();

/** A PostgreSQL with its data, as users have it: it syncs. Its clients are on other machines. */
class PostgresMachine implements Machine {
  readonly hasPrograms = false;
  readonly #disk: MortalDisk;
  readonly #server: PostgresServer;

  constructor(disk: MortalDisk, server: PostgresServer) {
    this.#disk = disk;
    this.#server = server;
  }

  async cut(): Promise<void> {
    await this.#disk.cut(() => this.#server.killNow());
    await this.#server.stop();
  }

  /** While its clients continue. */
  async inspect(): Promise<Dibs> {
    await this.#disk.restore();
    await this.#server.restart();
    return open(this.#server.url);
  }

  async resume(): Promise<void> {}
}

describe.skipIf(why)(`a PostgreSQL whose machine loses its power${why ? `, not here: ${why}` : ""}`, () => {
  test(
    `${cuts} cuts of PostgreSQL's power: nothing that was acknowledged is lost, and no fence is given twice`,
    { timeout: 120_000 + cuts * 40_000 },
    async ({ stage, onTestFailed }) => {
      onTestFailed(() => {
        console.error(
          `Seed ${seed} failed. Again: DIBS_SEED=${seed} DIBS_CUTS=${cuts} npm test -- test/e2e/power-cut/postgres`,
        );
      });
      const disk = await MortalDisk.on(stage);
      const folder = join(disk.path, "postgres");
      mkdirSync(folder);
      const server = await PostgresServer.start({ folder });
      stage.onEnd(() => server.remove());
      // initdb does not sync what it writes.
      await disk.sync();
      stage.file = server.url;
      const { entries } = await cutRepeatedly(stage, new PostgresMachine(disk, server), cuts, seed);
      const findings = await judge(await stage.open(), entries);
      if (isLong) console.log({ seed, cuts, ...findings });
    },
  );
});
