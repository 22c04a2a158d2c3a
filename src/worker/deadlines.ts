import type { Clock } from "../core/clock.ts";
import type { Held } from "./held.ts";

/** Ends handlers that are out of time. One timer for all: most end long before, and one each would cost more than the rest. */
export class Deadlines {
  readonly #clock: Clock;
  readonly #held: () => Iterable<Held>;
  readonly #end: (held: Held) => void;
  /** When the next look is due, and how to call it off. */
  #look: { at: number; stop: () => void } | undefined;

  constructor(clock: Clock, held: () => Iterable<Held>, end: (held: Held) => void) {
    this.#clock = clock;
    this.#held = held;
    this.#end = end;
  }

  /** `now` and `deadline` on the clock's awake time. */
  set(held: Held, deadline: number, now: number): void {
    held.deadline = deadline;
    this.#lookAt(deadline, now);
  }

  stop(): void {
    this.#look?.stop();
  }

  #lookAt(at: number, now: number): void {
    if (this.#look && this.#look.at <= at) return;
    this.#look?.stop();
    this.#look = { at, stop: this.#clock.after(at - now, () => this.#endOverdue()) };
  }

  #endOverdue(): void {
    this.#look = undefined;
    const now = this.#clock.read().awake;
    let next = Number.POSITIVE_INFINITY;
    for (const held of this.#held()) {
      if (held.deadline <= now) this.#end(held);
      else next = Math.min(next, held.deadline);
    }
    if (next < Number.POSITIVE_INFINITY) this.#lookAt(next, now);
  }
}
