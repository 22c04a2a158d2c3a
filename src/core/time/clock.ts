/**
 * Time is injected. A reading is what a machine knows about time; engine-time.ts turns readings into the store's time.
 * No other code in the product may call Date.now() to decide something.
 */
export interface Reading {
  /**
   * Identifies the boot of the machine that `elapsed` and `awake` count from. They are comparable only within one boot.
   */
  boot: string;
  /** Milliseconds since 1970; an administrator or NTP may step it at any time. */
  wall: number;
  /** Milliseconds since boot, sleep included. */
  elapsed: number;
  /** Milliseconds since boot without sleep. Leases are measured in it. */
  awake: number;
}

export interface Clock {
  read(): Reading;
  /** Calls `fn` once after `ms`; the returned function cancels it. Must not keep a process alive. */
  after(ms: number, fn: () => void): () => void;
  /** Only for a clock that a test moves: no time passes until `work` is done. */
  standStill?(work: Promise<unknown>): void;
}

/** The longest timer: setTimeout fires at once for anything above 2^31 - 1 ms. */
const LONGEST_TIMER_MS = 2_147_483_647;

export function startTimer(ms: number, fn: () => void): () => void {
  const timer = setTimeout(fn, Math.min(Math.max(ms, 0), LONGEST_TIMER_MS));
  timer.unref();
  return () => clearTimeout(timer);
}
