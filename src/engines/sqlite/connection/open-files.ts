import { statSync } from "node:fs";
import { DibsError } from "../../../core/errors/errors.ts";

/** Notices that the file of an open store was deleted or replaced. batch/store.ts checks it after each batch. */

/**
 * Three stats took 13 µs, and an add with its own commit 380 µs (medians, ext4): 3.5 %; one stat took 2.2 %. Once in 5
 * ms that is below 0.3 % by calculation; whole batches vary by 3 % from run to run. What is acknowledged before the
 * check is lost with the file, like everything before it.
 */
const CHECK_EVERY_MS = 5;

/** The files of an open store, by name. A deleted file keeps its inode number while a process has it open. */
export class OpenFiles {
  readonly #path: string;
  readonly #known: { name: string; dev: number; ino: number }[];
  #loss: DibsError | undefined;
  #nextCheck = 0;

  constructor(path: string) {
    this.#path = path;
    this.#known = [path, `${path}-wal`, `${path}-shm`].map((name) => {
      const { dev, ino } = statSync(name);
      return { name, dev, ino };
    });
  }

  /** Why this store cannot be used any more. Once lost, it stays lost. */
  get loss(): DibsError | undefined {
    return this.#loss;
  }

  /**
   * Throws if one of the files was deleted or replaced: what is written to it would be gone at the next open. It checks
   * at most every few milliseconds; after a pause it checks at once.
   */
  check(): void {
    const now = performance.now();
    if (now < this.#nextCheck) return;
    this.#nextCheck = now + CHECK_EVERY_MS;
    for (const { name, dev, ino } of this.#known) {
      const found = statSync(name, { throwIfNoEntry: false });
      if (found?.ino === ino && found.dev === dev) continue;
      this.#loss = new DibsError(
        "UNAVAILABLE",
        `The file ${name} was ${found ? "replaced" : "deleted or moved"} while the store ${this.#path} was open. This call is refused: ` +
          `what is written here now would be gone at the next open. Put the right file in place, then restart every process that has it open.`,
        { retryable: false },
      );
      throw this.#loss;
    }
  }
}
