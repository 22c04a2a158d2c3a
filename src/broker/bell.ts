import { READING_VERBS, type VerbName } from "../engine/engine.ts";
import type { Context } from "./context.ts";

/** Wakes whoever follows the events, when a commit may have brought some. */
export class Bell {
  readonly #sleepers = new Set<() => void>();
  #rung = 0;

  /** How often it has rung. */
  get rung(): number {
    return this.#rung;
  }

  ring(): void {
    this.#rung++;
    for (const wake of this.#sleepers) wake();
    this.#sleepers.clear();
  }

  /** Until it has rung more than `heard` times, `ms` have passed, or the signal aborts. */
  async wait(context: Context, heard: number, ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.#rung > heard) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        stopTimer();
        signal.removeEventListener("abort", done);
        this.#sleepers.delete(done);
        resolve();
      };
      const stopTimer = context.clock.after(ms, done);
      signal.addEventListener("abort", done);
      this.#sleepers.add(done);
    });
  }
}

/** A listener's own questions must not wake it. */
export function makesEvents(verb: VerbName): boolean {
  return !READING_VERBS.has(verb) && verb !== "listen" && verb !== "unlisten";
}
