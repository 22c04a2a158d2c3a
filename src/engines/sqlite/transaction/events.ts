import { EventWriter } from "../../../core/event/event-text.ts";
import type { DibsEvent } from "../../../core/event/events.ts";
import type { EventsAfter } from "../../../engine/engine.ts";
import { EventAllowance } from "../../../engine/event-allowance.ts";
import { bodyOf, EVENTS_PER_ROW, EventReading, type EventRow } from "../../../engine/event-rows.ts";
import type { Tx } from "./tx.ts";

/** Rows that are read at once. */
const ROWS = 16;

const INSERT_EVENTS = `INSERT INTO event (n, body) VALUES (?, ?)`;
const EVENTS = `SELECT n, body FROM event WHERE n > ? ORDER BY n LIMIT ${ROWS}`;

/**
 * The events of a transaction. Verbs announce them, and Tx writes them before the commit, while a reader listens. Every
 * event gets a number. Events above what EventAllowance grants are numbered and not written: readers see that numbers are
 * missing, and report a gap.
 */
export class Events {
  readonly #tx: Tx;
  #texts: string[] = [];
  /** The number of the last one. */
  #last = 0;
  readonly #allowance = new EventAllowance();
  readonly #writer = new EventWriter();

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  announce(event: DibsEvent): void {
    const tx = this.#tx;
    const n = ++tx.event;
    if (!this.#allowance.take(tx.awake, event.type)) return;
    if (this.#texts.length === EVENTS_PER_ROW || n !== this.#last + 1) this.write();
    this.#texts.push(this.#writer.textOf(event));
    this.#last = n;
  }

  /** Counts so many events if the next one would not be written, and returns whether it did. Callers with many events ask first. */
  skip(count: number): boolean {
    if (this.#allowance.isOpen(this.#tx.awake)) return false;
    this.#allowance.skip(count);
    this.#tx.event += count;
    return true;
  }

  write(): void {
    if (this.#texts.length === 0) return;
    const body = bodyOf(this.#texts);
    this.#texts = [];
    this.#tx.run(INSERT_EVENTS, this.#last, body);
  }

  /** After a rollback. */
  forget(): void {
    this.#texts = [];
  }

  /** At most `limit` events after number `after`. */
  after(after: number, limit: number): EventsAfter {
    this.write();
    const reading = new EventReading(after, limit);
    for (;;) {
      const rows = this.#tx.all<EventRow>(EVENTS, reading.cursor);
      for (const row of rows) {
        reading.add(row);
        if (reading.isFull) break;
      }
      if (reading.isFull || rows.length < ROWS) return reading.end(this.#tx.event);
    }
  }
}
