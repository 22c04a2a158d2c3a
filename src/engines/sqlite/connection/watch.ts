import { type FSWatcher, watch } from "node:fs";
import { nap } from "./block-thread.ts";

/**
 * Watches the -wal file for commits of other processes. thread/thread.ts starts it, and looks for tasks when it
 * reports.
 */

/** How often the store is read if the file system reports no changes. */
const POLL_MS = 250;
/**
 * The first write of a commit is reported; the commit is visible after its last write, usually within a millisecond. A
 * timer would take longer, so the thread blocks for it, in a few steps: each step wakes an idle process.
 */
const STEPS_MS = [0.1, 0.1, 0.2, 0.4];
/** Not for a process that has just committed: it is busy, and its next batch would wait too. */
const BUSY_MS = 2;
/** If a writer takes longer, the store is read again after these pauses, each counted from the read before. */
const LOOKS_MS = [1, 2, 4, 8, 16, 32, 64, 128];
/**
 * Once a write is explained by a visible commit or by one of this process, two more reads look for a commit that
 * followed closely. More would wake an idle process for every heartbeat of other processes.
 */
const LAST_LOOKS_MS = [4, 32];
/** The longest pause between two reports, while other processes commit all the time and nothing is for this one. */
const LONGEST_PAUSE_MS = 20;
/** After this long without a report, the next one is made at once. */
const QUIET_MS = 200;

/**
 * Notices commits of other processes. Every commit writes to the -wal file, also those of this process. SQLite's data
 * version tells which commits were foreign.
 */
export class Watch {
  readonly #version: () => number;
  readonly #report: () => void;
  #watcher: FSWatcher | undefined;
  #poll: NodeJS.Timeout | undefined;
  #seen: number;
  /** The reads that are planned. */
  #looks: readonly number[] = [];
  /** This process has committed since the last reported write. */
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

  /** A write of this process is about to be reported. */
  committed(): void {
    this.#isOurs = true;
    this.#committedAt = performance.now();
  }

  /** A report was useful: the next one should not wait. */
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
    // A commit is many writes. Those that follow while a read is planned are part of it.
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

  /** Blocks if another process has just begun to write and this one is idle. */
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
