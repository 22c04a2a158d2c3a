import type { Reading } from "../../core/clock.ts";
import { advanceTime, type EngineTime, startTime } from "../../core/engine-time.ts";
import type { Tx } from "./tx.ts";

/**
 * When a claim starts, by the server's clock at this very moment. The batch's own now may be older than the end of
 * the attempt before, which another transaction committed meanwhile.
 */
export const STARTED = (injected: string): string =>
  `coalesce(${injected}::int8, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8)`;

/**
 * When the statement began, by the same clock: the one value all through it, by which an index can be searched, and which need not be
 * kept in a table of its own while it runs. What it sees may have been committed a moment later. For each of many rows it is
 * to be said as a question of its own, `(SELECT …)`, which is answered once: to compute it takes as long as to write a short row.
 */
export const MOMENT = (injected: string): string =>
  `coalesce(${injected}::int8, floor(extract(epoch FROM statement_timestamp()) * 1000)::int8)`;

const WRITE_CLOCK = `
  UPDATE dibs.store SET now = $1, awake = $2, boot = $3, elapsed_at = $4, awake_at = $5 WHERE one = 1`;

/** Beats come every third of a lease. */
const FRESH = 0.5;

/** What the store's row tells of the time: the server's, or what was written down of an injected clock. */
export interface ClockRow {
  clock?: number;
  now?: number | null;
  awake?: number | null;
  boot?: string | null;
  elapsed_at?: number | null;
  awake_at?: number | null;
}

/** What time it is in a transaction. The server's clock tells, or one that was injected. */
export class TxClock {
  /** Set before the header is read: what goes out along with it has to know. */
  isInjected = false;
  time!: EngineTime;
  /** As it is written down. */
  #stored: ClockRow | undefined;

  /** Each transaction has one time, that of its beginning. */
  begin(row: ClockRow, reading: Reading | null): void {
    this.time = reading === null ? serverTime(row) : this.#advance(row, reading);
    this.#stored = row;
  }

  /**
   * An injected clock is kept in the store, as a file keeps its own. Readings of this process that were not written
   * down count too, unless another process has moved the clock since: then the later of both holds.
   */
  #advance(row: ClockRow, reading: Reading): EngineTime {
    const stored = this.#stored;
    const seen = this.time as EngineTime | undefined;
    if (row.now == null) return seen ? advanceTime(seen, reading) : startTime(reading);
    if (seen && stored?.now === row.now && stored.elapsed_at === row.elapsed_at && stored.boot === row.boot) {
      return advanceTime(seen, reading);
    }
    const time = advanceTime(
      {
        now: row.now,
        awake: row.awake!,
        boot: row.boot!,
        elapsedAt: row.elapsed_at!,
        awakeAt: row.awake_at!,
      },
      reading,
    );
    if (seen) {
      time.now = Math.max(time.now, seen.now);
      time.awake = Math.max(time.awake, seen.awake);
    }
    return time;
  }

  /** An injected one is written down with what was done by it. */
  write(tx: Tx): void {
    if (!this.isInjected) return;
    const { now, awake, boot, elapsedAt, awakeAt } = this.time;
    tx.put(WRITE_CLOCK, now, awake, boot, elapsedAt, awakeAt);
    this.#stored = { now, awake, boot, elapsed_at: elapsedAt, awake_at: awakeAt };
  }

  /** After a rollback: what was written down may be of the transaction that never was. */
  forget(): void {
    this.#stored = undefined;
  }

  /** Whether an injected clock's machine has booted since the last commit: that has to be written down. */
  get rebooted(): boolean {
    return this.isInjected && this.#stored!.boot !== this.time.boot;
  }

  /** For STARTED: an injected clock's now. */
  get startedAt(): number | null {
    return this.isInjected ? this.time.now : null;
  }

  /** The same of its waking hours. */
  get startedAwake(): number | null {
    return this.isInjected ? this.time.awake : null;
  }

  /** For which share of a lease a sign of life counts as fresh. An injected clock may stand still, and is kept to the millisecond. */
  get freshness(): number {
    return this.isInjected ? 0 : FRESH;
  }
}

/** One clock for both: a server does not sleep. */
function serverTime({ clock }: ClockRow): EngineTime {
  const now = clock!;
  return { now, awake: now, boot: "server", elapsedAt: now, awakeAt: now };
}
