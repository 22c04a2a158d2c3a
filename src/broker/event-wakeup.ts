import { READING_VERBS, type VerbName } from "../engine/engine.ts";
import type { Context } from "./context.ts";

/** Wakes the reader of the store's events when a commit may have written some. */
export class EventWakeup {
  readonly #waiting = new Set<() => void>();
  #count = 0;

  /** The number of wake-ups so far. */
  get count(): number {
    return this.#count;
  }

  wake(): void {
    this.#count++;
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  /** Waits until it has woken more than `seen` times, `ms` have passed, or the signal aborts. */
  async wait(context: Context, seen: number, ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.#count > seen) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        stopTimer();
        signal.removeEventListener("abort", done);
        this.#waiting.delete(done);
        resolve();
      };
      const stopTimer = context.clock.after(ms, done);
      signal.addEventListener("abort", done);
      this.#waiting.add(done);
    });
  }
}

/** Whether a verb can write events. The reader's own calls must not wake it. */
export function makesEvents(verb: VerbName): boolean {
  return !READING_VERBS.has(verb) && verb !== "listen" && verb !== "unlisten";
}
