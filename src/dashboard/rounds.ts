import { startTimer } from "../core/time/clock.ts";

export interface RoundsOptions {
  /** Milliseconds between two rounds, unless one takes long. */
  every: number;
  /** Between two rounds there are at least so many times the duration of one. */
  rest: number;
  read: () => Promise<void>;
}

const LONGEST_REST_MS = 15_000;

/**
 * Repeats a read of the store while a page shows its result. A slow read is repeated less often, so that open pages do
 * not slow down the work that they show.
 */
export class Rounds {
  readonly #options: RoundsOptions;
  #watchers = 0;
  #first: Promise<void> | undefined;
  #stopTimer: (() => void) | undefined;
  #problem: string | null = null;
  #generation = 0;

  constructor(options: RoundsOptions) {
    this.#options = options;
  }

  /** Why the last reading failed; null: it did not. */
  get problem(): string | null {
    return this.#problem;
  }

  /** The first reading since watching began. It does not fail: `problem` says whether it did. */
  get first(): Promise<void> {
    return this.#first ?? Promise.resolve();
  }

  watch(): () => void {
    if (++this.#watchers === 1) {
      const generation = ++this.#generation;
      this.#first = this.#go(generation);
    }
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      if (--this.#watchers > 0) return;
      this.#generation++;
      this.#stopTimer?.();
    };
  }

  /** Reads at once, unless it does already. */
  async now(): Promise<void> {
    this.#stopTimer?.();
    if (this.#stopTimer) await this.#go(this.#generation);
  }

  async #go(generation: number): Promise<void> {
    this.#stopTimer = undefined;
    const began = performance.now();
    try {
      await this.#options.read();
      this.#problem = null;
    } catch (error) {
      this.#problem = (error as Error).message;
    }
    if (generation !== this.#generation || this.#watchers === 0) return;
    const took = performance.now() - began;
    const { every, rest } = this.#options;
    const pause = Math.max(every - took, Math.min(took * rest, LONGEST_REST_MS));
    this.#stopTimer = startTimer(pause, () => void this.#go(generation));
  }
}
