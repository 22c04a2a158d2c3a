import type { Clock, Reading } from "../../src/core/time/clock.ts";

/**
 * The clock of an engine that uses its timers for heartbeats. stop() stops the heartbeats, as if the process hung.
 */
export class StoppableClock implements Clock {
  readonly #clock: Clock;
  #held: (() => void)[] | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  read(): Reading {
    return this.#clock.read();
  }

  after(ms: number, fn: () => void): () => void {
    let taken = false;
    const stopTimer = this.#clock.after(ms, () => {
      if (this.#held) this.#held.push(() => taken || fn());
      else fn();
    });
    return () => {
      taken = true;
      stopTimer();
    };
  }

  /** Stops the timers. The returned function resumes them, and fires at once those that were missed. */
  stop(): () => void {
    const held: (() => void)[] = [];
    this.#held = held;
    return () => {
      this.#held = undefined;
      for (const beat of held) beat();
    };
  }
}
