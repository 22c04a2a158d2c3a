import type { DibsEvent } from "../../../core/events.ts";
import { eventLock } from "../connection/locks.ts";
import type { Tx } from "./tx.ts";

const LOCK = `SELECT pg_advisory_xact_lock($1::int8)`;
// Not counted in the store's row: every batch reads that row, and would walk over each version of it.
const LAST_EVENT = `SELECT coalesce(max(n), 0) AS n FROM dibs.event`;
const INSERT_EVENTS = `
  INSERT INTO dibs.event (n, body) SELECT last.n + i, body
  FROM (${LAST_EVENT}) AS last, unnest($1::text[]) WITH ORDINALITY AS each (body, i)`;

/**
 * The events of a transaction. Verbs announce them, and Tx.finish writes them before the commit, while a reader
 * listens.
 */
export class Events {
  /** How many listen. */
  listeners = 0;
  readonly #tx: Tx;
  #events: DibsEvent[] = [];

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** Kept only while somebody listens. */
  announce(event: DibsEvent): void {
    if (this.listeners > 0) this.#events.push(event);
  }

  /**
   * Numbers of events are given out under a lock that lasts until the commit, late in the transaction: so whoever has
   * read up to a number has missed none before it.
   */
  flush(): void {
    const events = this.#events;
    if (events.length === 0) return;
    this.#events = [];
    this.#tx.send(LOCK, eventLock(this.#tx.link.schema));
    this.#tx.send(
      INSERT_EVENTS,
      events.map((event) => JSON.stringify(event)),
    );
  }

  async last(): Promise<number> {
    this.flush();
    return (await this.#tx.get<{ n: number }>(LAST_EVENT))!.n;
  }

  forget(): void {
    this.#events = [];
  }
}
