import type { DibsEvent } from "../../../core/events.ts";
import { EventAllowance } from "../../../engine/event-allowance.ts";
import type { Tx } from "./tx.ts";

/**
 * The events of a transaction. Verbs announce them, and Tx.finish writes them before the commit, while a reader
 * listens.
 */

/** Events of one row. */
const ROW = 500;
/** Rows that are read at once. */
const ROWS = 16;

// A row has the events of a commit, or a part of them, as a JSON list; `n` is the number of the last one. A row for each
// event cost more than the task it told of.
const INSERT_EVENTS = `INSERT INTO event (n, body) VALUES (?, ?)`;
const EVENTS = `SELECT n, body FROM event WHERE n > ? ORDER BY n LIMIT ${ROWS}`;

/**
 * What a transaction tells those who listen. Every event gets a number. Above what EventAllowance grants events are
 * numbered and not written: readers see the numbers that are missing, and tell a gap.
 */
export class Events {
  readonly #tx: Tx;
  #bodies: string[] = [];
  /** The number of the last of them. */
  #last = 0;
  readonly #allowance = new EventAllowance();

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  announce(event: DibsEvent): void {
    const tx = this.#tx;
    const n = ++tx.event;
    if (!this.#allowance.take(tx.awake)) return;
    if (this.#bodies.length === ROW || n !== this.#last + 1) this.write();
    this.#bodies.push(JSON.stringify(event));
    this.#last = n;
  }

  /** Counts so many events where the next one would not be written; answers whether. Who announces many asks before making them. */
  skip(count: number): boolean {
    if (this.#allowance.isOpen(this.#tx.awake)) return false;
    this.#allowance.skip(count);
    this.#tx.event += count;
    return true;
  }

  write(): void {
    if (this.#bodies.length === 0) return;
    const body = `[${this.#bodies.join(",")}]`;
    this.#bodies = [];
    this.#tx.run(INSERT_EVENTS, this.#last, body);
  }

  /** After a rollback. */
  forget(): void {
    this.#bodies = [];
  }

  /** At most `limit` after number `after`, up to the first that is missing between them. */
  after(after: number, limit: number): { events: DibsEvent[]; cursor: number; missed: number } {
    this.write();
    const events: DibsEvent[] = [];
    let [missed, cursor, more] = [0, after, true];
    while (more) {
      const rows = this.#tx.all<{ n: number; body: string }>(EVENTS, cursor);
      more = rows.length === ROWS;
      for (const { n, body } of rows) {
        const told = JSON.parse(body) as DibsEvent[];
        const first = Math.max(n - told.length + 1, cursor + 1);
        if (events.length === 0) missed = first - after - 1;
        else if (first !== cursor + 1) return { events, cursor, missed };
        const part = told.slice(first - n - 1).slice(0, limit - events.length);
        events.push(...part);
        cursor = first + part.length - 1;
        if (events.length === limit) return { events, cursor, missed };
      }
    }
    if (events.length > 0) return { events, cursor, missed };
    return { events, cursor: this.#tx.event, missed: this.#tx.event - after };
  }
}
