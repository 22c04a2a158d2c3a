/**
 * The order in which a transaction inserts what another one may insert at the same time. PostgreSQL lets the second one
 * wait for the first one's commit, and an insert has no NOWAIT. So these are the only locks for which a transaction
 * waits in its middle, and only in this order. What is out of order is tried, and may make the batch start again
 * (connection/locks.ts).
 */

/** In the order in which one add inserts them. */
const KINDS = ["key", "lane", "document"] as const;

export interface InsertPlace {
  kind: (typeof KINDS)[number];
  /** A queue's id, or the kind of a document. */
  of: number | string;
  name: string;
}

export class InsertOrder {
  /** The last place so far. */
  #last: Buffer | undefined;
  /** What was inserted after it. Most transactions insert once, and then nobody asks. */
  #since: (() => readonly InsertPlace[])[] = [];

  get isEmpty(): boolean {
    return this.#last === undefined && this.#since.length === 0;
  }

  /** Whether they are behind everything before. They count from now on. */
  comeNext(places: () => readonly InsertPlace[]): boolean {
    const isNext = this.isEmpty || this.#areBehind(places().map(bytesOf));
    this.#since.push(places);
    return isNext;
  }

  #areBehind(places: readonly Buffer[]): boolean {
    const since = this.#since.flatMap((each) => each().map(bytesOf));
    this.#since = [];
    const last = since.reduce((a: Buffer | undefined, b) => (a && a.compare(b) > 0 ? a : b), this.#last);
    this.#last = last;
    return last === undefined || places.every((place) => place.compare(last) >= 0);
  }
}

/** Compared as the statements order them: a number by its value, a text by its bytes. */
function bytesOf({ kind, of, name }: InsertPlace): Buffer {
  const where = typeof of === "number" ? `${of}`.padStart(10, "0") : of;
  return Buffer.from(`${KINDS.indexOf(kind)} ${where}\0${name}`);
}
