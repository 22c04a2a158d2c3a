import { EventWriter } from "../../../core/event/event-text.ts";
import type { DibsEvent } from "../../../core/event/events.ts";
import type { EventsAfter } from "../../../engine/engine.ts";
import { EventAllowance } from "../../../engine/event-allowance.ts";
import { bodyOf, EVENTS_PER_ROW, EventReading, type EventRow } from "../../../engine/event-rows.ts";
import { eventLock } from "../connection/locks.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "./tx.ts";

/** Rows that are read at once. */
const ROWS = 16;

const LOCK = `SELECT pg_advisory_xact_lock($1::int8)`;
// Not counted in the store's row: every batch reads that row, and would walk over each version of it.
const LAST_EVENT = `SELECT coalesce(max(n), 0) AS n FROM dibs.event`;
// A row without events takes the numbers up to `n` that no other row has.
const INSERT_EVENTS = `
  INSERT INTO dibs.event (n, body) SELECT last.n + each.n, body
  FROM (${LAST_EVENT}) AS last, unnest($1::int8[], $2::text[]) AS each (n, body)`;
const EVENTS = `SELECT n, body FROM dibs.event WHERE n > $1 ORDER BY n LIMIT ${ROWS}`;

interface Row {
  /** The number of its last event, counted from the first that this transaction announces. */
  n: number;
  texts: string[];
}

/**
 * The events of a transaction. Verbs announce them, and Tx writes them before the commit, while a reader listens. Every
 * event gets a number. Events above what EventAllowance grants are numbered and not written: readers see that numbers are
 * missing, and report a gap.
 */
export class Events {
  /** The number of processes that listen. */
  listeners = 0;
  readonly #tx: Tx;
  readonly #allowance = new EventAllowance();
  readonly #writer = new EventWriter();
  #rows: Row[] = [];
  /** Events announced by this transaction and not yet sent to the server, written or skipped. */
  #count = 0;

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** Ignored while no process listens. */
  announce(event: DibsEvent): void {
    if (this.listeners === 0) return;
    const n = ++this.#count;
    if (!this.#allowance.take(this.#tx.now, event.type)) return;
    let row = this.#rows.at(-1);
    if (!row || row.n !== n - 1 || row.texts.length === EVENTS_PER_ROW)
      this.#rows.push((row = { n, texts: [] }));
    row.n = n;
    row.texts.push(this.#writer.textOf(event));
  }

  /** Counts so many events if the next one would not be written, and returns whether it did. Callers with many events ask first. */
  skip(count: number): boolean {
    if (this.listeners > 0 && this.#allowance.isOpen(this.#tx.now)) return false;
    if (this.listeners > 0) {
      this.#allowance.skip(count);
      this.#count += count;
    }
    return true;
  }

  /**
   * Numbers of events are given out under a lock that lasts until the commit, late in the transaction. So a reader that
   * has read up to a number has missed none before it.
   */
  flush(): void {
    if (this.#count === 0) return;
    const rows = this.#rows;
    if (rows.at(-1)?.n !== this.#count) rows.push({ n: this.#count, texts: [] });
    this.forget();
    this.#tx.send(LOCK, eventLock(this.#tx.link.schema));
    this.#tx.send(
      INSERT_EVENTS,
      numbers(rows.map(({ n }) => n)),
      rows.map(({ texts }) => bodyOf(texts)),
    );
  }

  async last(): Promise<number> {
    this.flush();
    return (await this.#tx.get<{ n: number }>(LAST_EVENT))!.n;
  }

  forget(): void {
    this.#rows = [];
    this.#count = 0;
  }

  /** At most `limit` events after number `after`; null: after the last one. */
  async after(after: number | null, limit: number): Promise<EventsAfter> {
    const last = await this.last();
    const reading = new EventReading(after ?? last, limit);
    for (;;) {
      const rows = await this.#tx.all<EventRow>(EVENTS, reading.cursor);
      for (const row of rows) {
        reading.add(row);
        if (reading.isFull) break;
      }
      if (reading.isFull || rows.length < ROWS) return reading.end(last);
    }
  }
}
