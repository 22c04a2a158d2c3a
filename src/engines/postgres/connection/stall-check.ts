import type { Connection } from "./connection.ts";

/** So long an answer may take before anybody asks what became of it. */
const SILENT_MS = 10_000;
const LOOK_EVERY_MS = 2_500;

// One that waits for the rest of a message is not. What it does is not told to everybody.
const BUSY = `
  SELECT 1 FROM pg_stat_activity
  WHERE pid = $1 AND (state IS NULL OR state = 'active' AND wait_event IS DISTINCT FROM 'ClientRead')`;

export interface SilenceOptions {
  connect: () => Promise<Connection>;
}

/**
 * A network that swallows everything tells nobody: a connection across it waits for a quarter of an hour, until the
 * system gives it up. So when an answer is overdue, the server is asked on another connection whether it is at work
 * on it. Where it is, as behind somebody's lock, it is waited for; where it is not, or cannot be asked, the
 * connection is given up, and the batch is run again on a new one.
 */
export function watchForStall(link: Connection, { connect }: SilenceOptions): void {
  let isAsking = false;
  const timer = setInterval(() => {
    if (!isAsking && link.silentFor >= SILENT_MS) void look();
  }, LOOK_EVERY_MS);
  timer.unref();
  link.onEnd(() => clearInterval(timer));

  async function look(): Promise<void> {
    isAsking = true;
    const isBusy = await isAtWork();
    isAsking = false;
    // An answer may have come meanwhile.
    if (!isBusy && link.silentFor >= SILENT_MS) link.destroy();
  }

  async function isAtWork(): Promise<boolean> {
    let other: Connection | undefined;
    try {
      other = await connect();
      // Behind a transaction pooler nobody knows which of the server's processes it is.
      const { pid } = link;
      const rows = await withinReason(
        other,
        pid === undefined ? other.all("SELECT 1") : other.all(BUSY, pid),
      );
      return rows.length > 0;
    } catch {
      return false;
    } finally {
      other?.destroy();
    }
  }
}

async function withinReason<T>(link: Connection, answer: Promise<T>): Promise<T> {
  const timer = setTimeout(() => link.destroy(), SILENT_MS);
  timer.unref();
  try {
    return await answer;
  } finally {
    clearTimeout(timer);
  }
}
