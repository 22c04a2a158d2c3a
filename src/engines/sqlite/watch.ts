import { type FSWatcher, watch } from "node:fs";

/** Where the file system tells of no changes, the store is asked this often. */
const POLL_MS = 250;
/** The longest pause between two reports, while others commit all the time and nothing of it is for us. */
const LONGEST_PAUSE_MS = 20;
/** After this long without a report the next one is made at once again. */
const QUIET_MS = 200;

/**
 * Notices the commits of other processes. Every commit writes to the -wal file, ours too; SQLite's data version
 * tells which were not ours.
 */
export class Watch {
  readonly #version: () => number;
  readonly #report: () => void;
  readonly #watcher: FSWatcher | undefined;
  readonly #poll: NodeJS.Timeout | undefined;
  #seen: number;
  #pause = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(path: string, version: () => number, report: () => void) {
    this.#version = version;
    this.#report = report;
    this.#seen = version();
    this.#watcher = this.#watch(`${path}-wal`);
    if (!this.#watcher) this.#poll = setInterval(() => this.#look(), POLL_MS).unref();
  }

  /** What was reported was of use: the next one is not to wait. */
  useful(): void {
    this.#pause = 0;
  }

  close(): void {
    this.#watcher?.close();
    clearInterval(this.#poll);
    clearTimeout(this.#timer);
  }

  #watch(file: string): FSWatcher | undefined {
    try {
      const watcher = watch(file, { persistent: false }, () => this.#look());
      watcher.on("error", () => watcher.close());
      return watcher;
    } catch {
      return undefined;
    }
  }

  #look(): void {
    if (this.#timer) return;
    const rest = this.#reportedAt + this.#pause - performance.now();
    if (rest > 0) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.#compare();
      }, rest).unref();
      return;
    }
    this.#compare();
  }

  #compare(): void {
    const version = this.#version();
    if (version === this.#seen) return;
    this.#seen = version;
    const now = performance.now();
    const storm = now - this.#reportedAt < QUIET_MS;
    this.#pause = storm ? Math.min(Math.max(this.#pause * 2, 1), LONGEST_PAUSE_MS) : 0;
    this.#reportedAt = now;
    this.#report();
  }
}
