import { type FSWatcher, watch } from "node:fs";
import { nap } from "./block-thread.ts";

/**
 * Watches the -wal file for commits of other processes. thread/thread.ts starts it, and looks for tasks when it
 * reports.
 */

/** Where the file system tells of no changes, the store is asked this often. */
const POLL_MS = 250;
/**
 * We are told of a commit's first write to the file, and it shows after its last one, most often within a millisecond. A
 * timer would take longer than that, so the thread waits for it, in a few steps: each of them wakes an idle process.
 */
const STEPS_MS = [0.1, 0.1, 0.2, 0.4];
/** Not by one that has just committed: it is busy, and whoever asks for its next commit would wait too. */
const BUSY_MS = 2;
/** A writer that is held up longer is looked after again when so much time has passed, each counted from the look before. */
const LOOKS_MS = [1, 2, 4, 8, 16, 32, 64, 128];
/**
 * Once a write is explained, by a commit that shows or by one of our own, two more looks are for another commit
 * that followed at its heels. More would wake an idle process for every heartbeat of its neighbours.
 */
const LAST_LOOKS_MS = [4, 32];
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
  /** The looks to come. */
  #looks: readonly number[] = [];
  /** We have committed since we were last told of a write. */
  #isOurs = false;
  #committedAt = Number.NEGATIVE_INFINITY;
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

  /** We are about to be told of a write of our own. */
  committed(): void {
    this.#isOurs = true;
    this.#committedAt = performance.now();
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
    this.#poll ??= setInterval(() => void this.#compare(), POLL_MS).unref();
  }

  #written(): void {
    const looks = this.#isOurs ? LAST_LOOKS_MS : LOOKS_MS;
    this.#isOurs = false;
    // A commit is many writes: those that follow while a look is near are part of it.
    const isNear = this.#timer !== undefined && this.#looks.length >= LOOKS_MS.length - 2;
    this.#looks = looks;
    if (isNear) return;
    clearTimeout(this.#timer);
    this.#next();
  }

  #next(): void {
    this.#timer = undefined;
    const rest = this.#reportedAt + this.#pause - performance.now();
    if (rest <= 0 && this.#look() && this.#looks.length > LAST_LOOKS_MS.length) this.#looks = LAST_LOOKS_MS;
    const [wait, ...later] = this.#looks;
    if (wait === undefined) return;
    this.#looks = later;
    this.#timer = setTimeout(() => this.#next(), Math.max(rest, wait)).unref();
  }

  /** Patiently, if somebody else has just begun to write and we have nothing else to do. */
  #look(): boolean {
    if (this.#compare()) return true;
    if (this.#looks.length < LOOKS_MS.length) return false;
    if (performance.now() - this.#committedAt < BUSY_MS) return false;
    return STEPS_MS.some((ms) => {
      nap(ms);
      return this.#compare();
    });
  }

  /** Whether another process has committed. */
  #compare(): boolean {
    const version = this.#version();
    if (version === this.#seen) return false;
    this.#seen = version;
    const now = performance.now();
    const storm = now - this.#reportedAt < QUIET_MS;
    this.#pause = storm ? Math.min(Math.max(this.#pause * 2, 1), LONGEST_PAUSE_MS) : 0;
    this.#reportedAt = now;
    this.#report();
    return true;
  }
}
