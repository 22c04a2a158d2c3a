import { type FSWatcher, watch } from "node:fs";

/** Where the file system tells of no changes, the store is asked this often. */
const POLL_MS = 250;
/**
 * A commit shows some time after its last write to the file, which is what we are told of: the disk has to be
 * reached in between. So we look at once, and again after each of these.
 */
const LOOKS_MS = [1, 2, 4, 8, 16, 32, 64, 128];
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
  #watcher: FSWatcher | undefined;
  #poll: NodeJS.Timeout | undefined;
  #seen: number;
  /** The next look, as an index into LOOKS_MS; past its end while nothing was written. */
  #look = LOOKS_MS.length;
  #timer: NodeJS.Timeout | undefined;
  #pause = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;

  constructor(path: string, version: () => number, report: () => void) {
    this.#version = version;
    this.#report = report;
    this.#seen = version();
    try {
      this.#watcher = watch(`${path}-wal`, { persistent: false }, () => this.#written());
      this.#watcher.on("error", () => this.#pollInstead());
    } catch {
      this.#pollInstead();
    }
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

  #pollInstead(): void {
    this.#watcher?.close();
    this.#poll ??= setInterval(() => this.#compare(), POLL_MS).unref();
  }

  #written(): void {
    const soon = this.#look <= 2;
    this.#look = 0;
    if (soon && this.#timer) return;
    clearTimeout(this.#timer);
    this.#next();
  }

  #next(): void {
    this.#timer = undefined;
    const rest = this.#reportedAt + this.#pause - performance.now();
    if (rest <= 0) this.#compare();
    const wait = Math.max(rest, LOOKS_MS[this.#look] ?? 0);
    if (this.#look++ < LOOKS_MS.length) this.#timer = setTimeout(() => this.#next(), wait).unref();
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
