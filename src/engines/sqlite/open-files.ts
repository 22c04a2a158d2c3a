import { statSync } from "node:fs";
import { DibsError } from "../../core/errors.ts";

/** The files of an open store, by name. One that is deleted keeps its number for as long as somebody has it open. */
export class OpenFiles {
  readonly #path: string;
  readonly #known: { name: string; dev: number; ino: number }[];
  #loss: DibsError | undefined;

  constructor(path: string) {
    this.#path = path;
    this.#known = [path, `${path}-wal`, `${path}-shm`].map((name) => {
      const { dev, ino } = statSync(name);
      return { name, dev, ino };
    });
  }

  /** Why nothing of this store can be relied on any more. Once it is lost it stays so. */
  get loss(): DibsError | undefined {
    return this.#loss;
  }

  /** Throws where one of the files was deleted or replaced: what is written to it is gone at the next open. */
  check(): void {
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
