import type { Clock } from "../core/time/clock.ts";
import type { Held } from "./held.ts";

/** Timers fire at whole milliseconds: a task that becomes overdue within the current one counts as overdue already. */
const TICK_MS = 1;

/** The tasks that a worker has claimed and not started, in the order in which they will start. */
export class Ahead {
  readonly #clock: Clock;
  /** How long a task may wait here; infinite for a fixed prefetch. */
  readonly #longest: number;
  readonly #onOverdue: () => void;
  readonly #tasks: Held[] = [];
  #stopTimer: (() => void) | undefined;

  constructor(clock: Clock, longest: number, onOverdue: () => void) {
    this.#clock = clock;
    this.#longest = longest;
    this.#onOverdue = onOverdue;
  }

  get length(): number {
    return this.#tasks.length;
  }

  push(tasks: readonly Held[]): void {
    this.#tasks.push(...tasks);
    if (this.#longest < Number.POSITIVE_INFINITY && this.#stopTimer === undefined && this.#tasks.length > 0)
      this.#checkAfter(this.#longest);
  }

  shift(): Held | undefined {
    return this.#tasks.shift();
  }

  /** Returns false if the task is not prefetched. */
  remove(held: Held): boolean {
    const index = this.#tasks.indexOf(held);
    if (index >= 0) this.#tasks.splice(index, 1);
    return index >= 0;
  }

  /** Removes and returns all tasks but the next `count`. */
  takeAfter(count: number): Held[] {
    return this.#tasks.splice(Math.max(0, count));
  }

  /** Whether the next task has waited for too long. */
  isOverdue(now: number): boolean {
    return this.#tasks.length > 0 && now - this.#tasks[0]!.claimedAt > this.#longest - TICK_MS;
  }

  stop(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }

  /** One timer for all: most tasks start long before it. */
  #checkAfter(ms: number): void {
    this.#stopTimer = this.#clock.after(ms, () => {
      this.#stopTimer = undefined;
      const now = this.#clock.read().awake;
      if (this.isOverdue(now)) this.#onOverdue();
      const [next] = this.#tasks;
      if (next) this.#checkAfter(Math.max(TICK_MS, next.claimedAt + this.#longest - now));
    });
  }
}
