import { BOUNDS } from "./engine.ts";

/** What a skipped event takes from the allowance; a written one takes 1. Above twice the rate no event is written. */
const PRICE_OF_SKIPPED = 0.5;
/**
 * After skipping, writing resumes with at least this many in a row: readers get pages, instead of one event per gap.
 */
const RESUME_AT = 1_000;

/**
 * Which events a process writes while a reader listens: BOUNDS.eventBurst at once and BOUNDS.eventRate per second. No
 * reader keeps up with more, so above that events are only counted, which costs almost nothing. Skipped events use the
 * allowance too: the further the rate is above the bound, the fewer are written. Each engine has one.
 */
export class EventAllowance {
  #left: number = BOUNDS.eventBurst;
  #isTelling = true;
  #refilledAt: number | undefined;

  /** Takes one event and returns whether to write it. `awake` is the current time, in awake milliseconds. */
  take(awake: number): boolean {
    const isGranted = this.isOpen(awake);
    if (isGranted) this.#left--;
    else this.skip(1);
    return isGranted;
  }

  /** Whether the next event is to be written. */
  isOpen(awake: number): boolean {
    if (awake !== this.#refilledAt) this.#refill(awake);
    return this.#isTelling && this.#left >= 1;
  }

  /** `count` events are only counted. */
  skip(count: number): void {
    this.#isTelling = false;
    this.#left = Math.max(-BOUNDS.eventBurst, this.#left - PRICE_OF_SKIPPED * count);
  }

  #refill(awake: number): void {
    const earned = ((awake - (this.#refilledAt ?? awake)) * BOUNDS.eventRate) / 1_000;
    this.#refilledAt = awake;
    this.#left = Math.min(BOUNDS.eventBurst, this.#left + Math.max(0, earned));
    this.#isTelling ||= this.#left >= RESUME_AT;
  }
}
