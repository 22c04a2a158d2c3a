import { BOUNDS } from "./engine.ts";

/** What an event that is not told takes from the allowance, against one that is. Above twice the rate none is told. */
const PRICE_OF_SKIPPED = 0.5;
/** After some were skipped, telling goes on with at least so many in a row: readers get pages, and not one event a gap. */
const RESUME_AT = 1_000;

/**
 * Which events a process writes while somebody listens: BOUNDS.eventBurst at once and BOUNDS.eventRate a second. Nobody reads
 * more than that, so above it events are only counted, which costs next to nothing. Skipped events use the allowance up
 * too: the further the rate is above the bound, the fewer are written.
 */
export class EventAllowance {
  #left: number = BOUNDS.eventBurst;
  #isTelling = true;
  #refilledAt: number | undefined;

  /** Takes one event, and answers whether it is to be written; `awake` is now, in awake milliseconds. */
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

  /** So many events are only counted. */
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
