import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Reading } from "../../src/core/time/clock.ts";
import type { Hint } from "../../src/engine/hint.ts";
import type { Op, Outcome } from "../../src/engine/engine.ts";
import { SqliteStore } from "../../src/engines/sqlite/batch/store.ts";
import { FAILURE, NOT_THERE, type Subject, trap } from "./subject.ts";

/**
 * The SQLite store, and its failures. A crash is a copy of its files as they are at that moment, opened in place of the
 * originals: what kill -9 would leave, as far as SQLite can see.
 */
export class SqliteSubject implements Subject {
  readonly #folder: string | undefined;
  #path = ":memory:";
  #copies = 0;
  #store: SqliteStore;

  /** On a file it can crash; in memory it is faster. */
  constructor(salt: number, reading: Reading, options: { file: boolean }) {
    if (options.file) {
      this.#folder = mkdtempSync(join(tmpdir(), "dibs-simulation-"));
      this.#path = join(this.#folder, "0.db");
    }
    this.#store = new SqliteStore({ path: this.#path, store: salt, durability: "relaxed" }, reading);
  }

  run(ops: Op[], reading: Reading): { outcomes: Outcome[]; hint: Hint } {
    return this.#store.execute(ops, reading);
  }

  get canCrash(): boolean {
    return this.#folder !== undefined;
  }

  /** Between two batches. */
  crash(reading: Reading): void {
    this.#reopen(this.#copyFiles(), reading);
  }

  /** A batch that fails during its last operation, and then has not happened. The store continues. */
  fail(ops: Op[], reading: Reading, reads: number): void {
    this.#failAt(ops, reading, reads, () => {});
  }

  /** The same, but the process dies during it. */
  crashWithin(ops: Op[], reading: Reading, reads: number): void {
    let image = "";
    this.#failAt(ops, reading, reads, () => (image = this.#copyFiles()));
    this.#reopen(image, reading);
  }

  end(): void {
    this.#store.close();
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true });
  }

  #failAt(ops: Op[], reading: Reading, reads: number, onFailure: () => void): void {
    const task = trap(reads, () => {
      onFailure();
      throw new Error(FAILURE);
    });
    try {
      this.#store.execute([...ops, { verb: "add", tasks: [{ queue: NOT_THERE, data: "1" }, task] }], reading);
    } catch (error) {
      if (!(error instanceof Error && error.message.includes(FAILURE))) throw error;
      return;
    }
    throw new Error("a batch was made to fail, and did not");
  }

  #copyFiles(): string {
    const path = join(this.#folder!, `${++this.#copies}.db`);
    for (const part of ["", "-wal"])
      if (existsSync(this.#path + part)) copyFileSync(this.#path + part, path + part);
    return path;
  }

  #reopen(path: string, reading: Reading): void {
    this.#store.close();
    this.#path = path;
    this.#store = new SqliteStore({ path, durability: "relaxed" }, reading);
  }
}
