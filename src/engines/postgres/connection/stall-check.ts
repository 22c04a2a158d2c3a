import type { Connection } from "./connection.ts";

/** After so long without an answer, the server is checked. */
const SILENT_MS = 10_000;
const CHECK_EVERY_MS = 2_500;

// A process that waits for the rest of a message is not busy. `state` is null if this user may not see it.
const BUSY = `
  SELECT 1 FROM pg_stat_activity
  WHERE pid = $1 AND (state IS NULL OR state = 'active' AND wait_event IS DISTINCT FROM 'ClientRead')`;

export interface StallOptions {
  connect: () => Promise<Connection>;
}

/**
 * Detects a network that drops everything silently: the operating system would wait a quarter of an hour. When an answer is
 * overdue, this asks the server on another connection whether its process is busy. If it is, for example behind a lock, the
 * wait continues. If it is not, or the server is unreachable, the connection is destroyed, and the batch is executed again
 * on a new one. The engine and ReconnectingStore call it for each connection.
 */
export function watchForStall(link: Connection, { connect }: StallOptions): void {
  let isChecking = false;
  const timer = setInterval(() => {
    if (!isChecking && link.silentFor >= SILENT_MS) void check();
  }, CHECK_EVERY_MS);
  timer.unref();
  link.onEnd(() => clearInterval(timer));

  async function check(): Promise<void> {
    isChecking = true;
    const isBusy = await isAtWork();
    isChecking = false;
    // An answer may have come meanwhile.
    if (!isBusy && link.silentFor >= SILENT_MS) link.destroy();
  }

  async function isAtWork(): Promise<boolean> {
    let other: Connection | undefined;
    try {
      other = await connect();
      // Behind a transaction pooler, the server process is not known.
      const { pid } = link;
      const rows = await withTimeout(other, pid === undefined ? other.all("SELECT 1") : other.all(BUSY, pid));
      return rows.length > 0;
    } catch {
      return false;
    } finally {
      other?.destroy();
    }
  }
}

async function withTimeout<T>(link: Connection, answer: Promise<T>): Promise<T> {
  const timer = setTimeout(() => link.destroy(), SILENT_MS);
  timer.unref();
  try {
    return await answer;
  } finally {
    clearTimeout(timer);
  }
}
