import { type DibsEvent, isImportant } from "../core/event/events.ts";
import { BOUNDS } from "./bounds.ts";

/**
 * After a gap, writing resumes with at least so many events in a row, so that readers get pages and not one event per
 * gap.
 */
const RESUME_AT = 1_000;

/**
 * Decides which events a connection writes while there is a listener: BOUNDS.eventBurst at once and BOUNDS.eventRate a
 * second, because readers get no more than that. Above it, events are only counted, which costs next to nothing.
 * Skipped events use up the allowance like written ones, so at a higher rate all are only counted until the rate falls.
 * When skipped events cost half, a drain of 12,000 tasks a second wrote two thirds of its events, and took a third
 * longer for that.
 *
 * Important events have a reserve of their own, BOUNDS.eventReserve at once and a second, so that a flood of adds does not
 * hide a dead letter.
 */
export class EventAllowance {
  #left: number = BOUNDS.eventBurst;
  #reserve: number = BOUNDS.eventReserve;
  #isWriting = true;
  #refilledAt: number | undefined;

  /** Takes one event, and returns whether it is to be written; `awake` is now, in awake milliseconds. */
  take(awake: number, type: DibsEvent["type"]): boolean {
    if (this.isOpen(awake)) {
      this.#left--;
      return true;
    }
    if (this.#reserve >= 1 && isImportant(type)) {
      this.#reserve--;
      return true;
    }
    this.skip(1);
    return false;
  }

  /** Whether the next event will be written, whatever its type. */
  isOpen(awake: number): boolean {
    if (awake !== this.#refilledAt) this.#refill(awake);
    return this.#isWriting && this.#left >= 1;
  }

  /** Counts events that are not written. */
  skip(count: number): void {
    this.#isWriting = false;
    this.#left = Math.max(-BOUNDS.eventBurst, this.#left - count);
  }

  #refill(awake: number): void {
    const seconds = Math.max(0, awake - (this.#refilledAt ?? awake)) / 1_000;
    this.#refilledAt = awake;
    this.#left = Math.min(BOUNDS.eventBurst, this.#left + seconds * BOUNDS.eventRate);
    this.#reserve = Math.min(BOUNDS.eventReserve, this.#reserve + seconds * BOUNDS.eventReserve);
    this.#isWriting ||= this.#left >= RESUME_AT;
  }
}
