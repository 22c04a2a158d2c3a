import { gapText, timeOf } from "../core/event/event-text.ts";
import type { EventsAfter } from "./engine.ts";

/** Events of one row. */
export const EVENTS_PER_ROW = 500;

/**
 * Events as both SQL engines store them. A row has the events of a commit, or a part of them; `n` is the number of the
 * last one. One row per event cost more than the task that it was about. Numbers without a row belong to events that
 * were counted and not written.
 */
export interface EventRow {
  n: number;
  /** A JSON list with one event per line. */
  body: string;
}

export function bodyOf(texts: readonly string[]): string {
  return `[${texts.join(SEPARATOR)}]`;
}

/** JSON escapes line breaks within an event, so this separates events. */
const SEPARATOR = ",\n";

function textsIn(body: string): string[] {
  return body.length === 2 ? [] : body.slice(1, -1).split(SEPARATOR);
}

/** Collects at most `limit` events after number `after` from rows in their order, with gaps in between. */
export class EventReading {
  readonly #after: number;
  readonly #limit: number;
  readonly #events: string[] = [];
  #missed = 0;
  #cursor: number;
  /** The number of the last event collected. */
  #collected: number;

  constructor(after: number, limit: number) {
    this.#after = after;
    this.#limit = limit;
    this.#cursor = after;
    this.#collected = after;
  }

  /** Rows after this number are needed. */
  get cursor(): number {
    return this.#cursor;
  }

  get isFull(): boolean {
    return this.#events.length >= this.#limit;
  }

  add({ n, body }: EventRow): void {
    const texts = textsIn(body);
    const first = Math.max(n - texts.length + 1, this.#cursor + 1);
    const unread = texts.slice(texts.length - (n - first + 1));
    if (unread.length > 0) {
      this.#bridge(first, unread[0]!);
      const room = Math.max(1, this.#limit - this.#events.length);
      const part = unread.slice(0, room);
      this.#events.push(...part);
      this.#collected = first + part.length - 1;
      this.#cursor = this.#collected;
      if (part.length < unread.length) return;
    }
    this.#cursor = n;
  }

  /** @param last the number of the store's last event */
  end(last: number): EventsAfter {
    if (this.#events.length > 0)
      return { events: this.#events, cursor: this.#collected, missed: this.#missed };
    const cursor = Math.max(this.#cursor, last);
    return { events: [], cursor, missed: cursor - this.#after };
  }

  /** Adds a gap for the events that are missing before number `first`. */
  #bridge(first: number, text: string): void {
    const missing = first - this.#collected - 1;
    if (missing === 0) return;
    if (this.#events.length === 0) this.#missed = missing;
    else this.#events.push(gapText(timeOf(text), missing));
  }
}
