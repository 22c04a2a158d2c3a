import Database from "better-sqlite3";
import { nap } from "./block-thread.ts";
import { BUSY_MS } from "./open.ts";

/** Pauses between two tries: short while another commit may be about to end, longer afterwards. */
const SHORT_MS = 0.15;
const LONG_MS = 4;
const LONG_AFTER_MS = 20;

/**
 * Tries for 5 s to lock the store. SQLite's own wait starts with a millisecond and soon sleeps for a tenth of a second,
 * while a commit takes less than a millisecond: three busy processes spent most of their time asleep. A random share
 * keeps processes from trying in step.
 */
export function whenFree<T>(attempt: () => T): T {
  let startedAt: number | undefined;
  for (;;) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error)) throw error;
      const now = performance.now();
      startedAt ??= now;
      const waited = now - startedAt;
      if (waited >= BUSY_MS) throw error;
      const pause = waited < LONG_AFTER_MS ? SHORT_MS : LONG_MS;
      nap(pause * (0.5 + Math.random()));
    }
  }
}

/** Another connection is writing, or has committed since the read that this transaction began with. */
export function isBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY");
}
