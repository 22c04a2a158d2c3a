/**
 * Time is injected. A reading holds what a machine can tell about time; what the engine makes of it is in
 * engine-time.ts. Nothing else in the product may call Date.now() to decide something.
 */
export interface Reading {
  /** Names the run of the machine that `elapsed` and `awake` count from. They compare only within one. */
  boot: string;
  /** Milliseconds of the calendar; may be stepped by an administrator or by NTP at any time. */
  wall: number;
  /** Milliseconds since boot, sleep included. */
  elapsed: number;
  /** Milliseconds since boot in which the machine was awake: what leases are measured in. */
  awake: number;
}

export interface Clock {
  read(): Reading;
  /** Calls `fn` once after `ms`; the returned function takes that back. Must not keep a process alive. */
  after(ms: number, fn: () => void): () => void;
  /** Of a clock that a test moves: lets no time pass until `work` is done. */
  standStill?(work: Promise<unknown>): void;
}

/** setTimeout fires at once for anything above 2^31 - 1 ms. */
const LONGEST_TIMER_MS = 2_147_483_647;

export function startTimer(ms: number, fn: () => void): () => void {
  const timer = setTimeout(fn, Math.min(Math.max(ms, 0), LONGEST_TIMER_MS));
  timer.unref();
  return () => clearTimeout(timer);
}
