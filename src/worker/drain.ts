import type { Clock } from "../core/time/clock.ts";
import { claimLost, DibsError } from "../core/errors/errors.ts";
import { setFate } from "./held.ts";
import type { HeldTasks } from "./held-tasks.ts";
import { abortAfter } from "./options.ts";

/**
 * How long a worker that stops waits for its handlers, for worker.ts. Handlers are asked to stop shortly before the
 * end; those that do not are left behind.
 */
export class Drain {
  readonly #clock: Clock;
  readonly #held: HeldTasks;
  readonly #over = Promise.withResolvers<void>();
  #stopTimers: (() => void)[] = [];
  #isWaiting = false;
  #isOver = false;

  constructor(clock: Clock, held: HeldTasks) {
    this.#clock = clock;
    this.#held = held;
  }

  /** Handlers have this long from now on. A second call can only make it shorter. */
  within(timeout: number): void {
    if (this.#isOver) return;
    this.#stopTimers.push(
      this.#clock.after(abortAfter(timeout), () => this.#askToStop()),
      this.#clock.after(timeout, () => this.#end()),
    );
  }

  /** Resolves when no task is left or the time is over. */
  wait(): Promise<void> {
    this.#isWaiting = true;
    this.noteNoneLeft();
    return this.#over.promise;
  }

  /** Called whenever the last task is settled. */
  noteNoneLeft(): void {
    if (this.#isWaiting && this.#held.isEmpty) this.#end();
  }

  /** For handlers that did not end in time. When the worker leaves, the store releases their tasks. */
  leaveBehind(): void {
    for (const held of this.#held.all())
      setFate(held, "lost", claimLost(held.claimed.id, held.claimed.fence));
  }

  #askToStop(): void {
    for (const held of this.#held.all())
      setFate(held, "stopped", new DibsError("CLOSED", "The worker is stopping."));
  }

  #end(): void {
    this.#isOver = true;
    for (const stopTimer of this.#stopTimers) stopTimer();
    this.#stopTimers = [];
    this.#over.resolve();
  }
}
