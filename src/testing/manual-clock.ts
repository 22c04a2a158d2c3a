import { refuseSurplus } from "../core/input/arguments.ts";
import type { Clock, Reading } from "../core/time/clock.ts";
import { type Duration, parseDuration } from "../core/time/duration.ts";

/**
 * A clock for tests that advances only when a test calls it. `advance` lets time pass and fires the timers that become
 * due, in order; after each it lets promise callbacks run.
 */
export class ManualClock implements Clock {
  readonly #timers = new Set<{ at: number; fn: () => void }>();
  readonly #work = new Set<Promise<unknown>>();
  #started = 0;
  #boot = 1;
  #wall: number;
  #elapsed = 0;
  #awake = 0;

  constructor(start: Date = new Date("2026-01-01T00:00:00Z")) {
    this.#wall = start.getTime();
  }

  read(): Reading {
    return { boot: `boot ${this.#boot}`, wall: this.#wall, elapsed: this.#elapsed, awake: this.#awake };
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.#awake + Math.max(0, ms), fn };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Lets time pass, as in `advance("2h")` or milliseconds. */
  async advance(time: Duration): Promise<void> {
    const end = this.#awake + parseDuration(time, "time");
    for (;;) {
      await this.#quiet();
      const next = [...this.#timers].filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.#pass(Math.max(0, next.at - this.#awake));
      this.#timers.delete(next);
      next.fn();
    }
    this.#pass(Math.max(0, end - this.#awake));
    await this.#quiet();
  }

  /** No time passes until `work` is done: for a store that answers from another thread. */
  standStill(work: Promise<unknown>): void {
    const forget = (): unknown => this.#work.delete(work);
    this.#work.add(work);
    this.#started++;
    work.then(forget, forget);
  }

  /** The machine sleeps: time passes, but nothing runs, and no lease gets shorter. */
  sleep(time: Duration): void {
    const ms = parseDuration(time, "time");
    this.#elapsed += ms;
    this.#wall += ms;
  }

  /** The calendar is stepped, forward or back. */
  step(ms: number): void {
    this.#wall += ms;
  }

  /** Waits until no work is in progress, and its callers have continued. */
  async #quiet(): Promise<void> {
    let started: number;
    do {
      started = this.#started;
      await Promise.allSettled(this.#work);
      await nextTurn();
      await nextTurn();
      // Work that was started and answered meanwhile may have started more.
    } while (this.#work.size > 0 || this.#started > started);
  }

  #pass(ms: number): void {
    this.#awake += ms;
    this.#elapsed += ms;
    this.#wall += ms;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

refuseSurplus(ManualClock, "clock", { calls: { sleep: "time", step: "ms" }, promises: { advance: "time" } });
