import type { DibsEvent } from "../../../core/events.ts";
import { EventAllowance } from "../../../engine/event-allowance.ts";
import { eventLock } from "../connection/locks.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "./tx.ts";

/** Events of one row. */
const ROW = 500;
/** Rows that are read at once. */
const ROWS = 16;

const LOCK = `SELECT pg_advisory_xact_lock($1::int8)`;
// Not counted in the store's row: every batch reads that row, and would walk over each version of it.
const LAST_EVENT = `SELECT coalesce(max(n), 0) AS n FROM dibs.event`;
// A row has the events of a commit, or a part of them, as a JSON list; `n` is the number of the last one. A row with an
// empty list only counts: it takes the numbers before `n` that no row has.
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
 * event gets a number. Events above what EventAllowance grants are
 * numbered and not written: readers see that numbers are missing, and report a gap.
 */
export class Events {
  /** How many listen. */
  listeners = 0;
  readonly #tx: Tx;
  readonly #allowance = new EventAllowance();
  #rows: Row[] = [];
  /** Events announced by this transaction and not yet sent to the server, written or skipped. */
  #count = 0;

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** Kept only while somebody listens. */
  announce(event: DibsEvent): void {
    if (this.listeners === 0) return;
    const n = ++this.#count;
    if (!this.#allowance.take(this.#tx.now)) return;
    let row = this.#rows.at(-1);
    if (!row || row.n !== n - 1 || row.texts.length === ROW) this.#rows.push((row = { n, texts: [] }));
    row.n = n;
    row.texts.push(JSON.stringify(event));
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
      rows.map(({ texts }) => `[${texts.join(",")}]`),
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

  /** At most `limit` events after number `after`, up to the first missing number between them. */
  async after(
    after: number | null,
    limit: number,
  ): Promise<{ events: DibsEvent[]; cursor: number; missed: number }> {
    const last = await this.last();
    const from = after ?? last;
    const events: DibsEvent[] = [];
    let [missed, cursor, more] = [0, from, true];
    while (more) {
      const rows = await this.#tx.all<{ n: number; body: string }>(EVENTS, cursor);
      more = rows.length === ROWS;
      for (const { n, body } of rows) {
        const told = JSON.parse(body) as DibsEvent[];
        const first = Math.max(n - told.length + 1, cursor + 1);
        if (events.length === 0) missed = first - from - 1;
        else if (first !== cursor + 1) return { events, cursor, missed };
        const part = told.slice(first - n - 1).slice(0, limit - events.length);
        events.push(...part);
        cursor = first + part.length - 1;
        if (events.length === limit) return { events, cursor, missed };
      }
    }
    if (events.length > 0) return { events, cursor, missed };
    // Events that were committed between the two statements count too.
    const end = Math.max(cursor, last);
    return { events, cursor: end, missed: end - from };
  }
}
