import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect } from "vitest";
import { type Dibs, open } from "../../../src/index.ts";
import type { MortalDisk } from "../harness/mortal-disk.ts";
import type { Program } from "../harness/program.ts";
import type { Stage } from "../harness/stage.ts";
import { killRunning } from "../kill/roles.ts";
import type { Machine } from "./cuts.ts";

/** A store in a file. All processes that use it lose their power with the disk. */
export class FileMachine implements Machine {
  readonly hasPrograms: boolean = true;
  readonly #disk: MortalDisk;
  readonly #file: string;
  readonly #copy: string;

  constructor(stage: Stage, disk: MortalDisk) {
    stage.file = join(disk.path, "work.db");
    this.#file = stage.file;
    this.#copy = join(stage.folder, "copy.db");
    this.#disk = disk;
  }

  async cut(programs: Program[]): Promise<void> {
    await this.#disk.cut(() => programs.forEach((program) => program.signal("SIGKILL")));
    await Promise.all(programs.map(killRunning));
  }

  /** Reads a copy: to close the store would tidy up what the next processes have to find. */
  async inspect(): Promise<Dibs> {
    await this.#disk.restore();
    for (const suffix of ["", "-wal"]) {
      const [from, to] = [`${this.#file}${suffix}`, `${this.#copy}${suffix}`];
      if (existsSync(from)) copyFileSync(from, to);
    }
    const db = new Database(this.#copy);
    expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
    db.close();
    return open(this.#copy);
  }

  async resume(): Promise<void> {}
}
