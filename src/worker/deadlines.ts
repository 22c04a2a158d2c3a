import type { Clock } from "../core/time/clock.ts";
import type { Held } from "./held.ts";

/**
 * Ends handlers that exceed their timeout, for the worker. One timer for all: most handlers end long before, and a
 * timer each would cost more than everything else.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #held: () => Iterable<Held>;
  readonly #end: (held: Held) => void;
  /** When the next check is due, and how to cancel it. */
  #nextCheck: { at: number; stop: () => void } | undefined;

  constructor(clock: Clock, held: () => Iterable<Held>, end: (held: Held) => void) {
    this.#clock = clock;
    this.#held = held;
    this.#end = end;
  }

  /** `now` and `deadline` are in the clock's awake time. */
  set(held: Held, deadline: number, now: number): void {
    held.deadline = deadline;
    this.#checkAt(deadline, now);
  }

  stop(): void {
    this.#nextCheck?.stop();
  }

  #checkAt(at: number, now: number): void {
    if (this.#nextCheck && this.#nextCheck.at <= at) return;
    this.#nextCheck?.stop();
    this.#nextCheck = { at, stop: this.#clock.after(at - now, () => this.#endOverdue()) };
  }

  #endOverdue(): void {
    this.#nextCheck = undefined;
    const now = this.#clock.read().awake;
    let next = Number.POSITIVE_INFINITY;
    for (const held of this.#held()) {
      if (held.deadline <= now) this.#end(held);
      else next = Math.min(next, held.deadline);
    }
    if (next < Number.POSITIVE_INFINITY) this.#checkAt(next, now);
  }
}
