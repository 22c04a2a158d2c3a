import { EventPage } from "../core/event-page.ts";
import type { DibsEvent } from "../core/events.ts";

/** Numbered events that follow each other without a hole. */
interface Stretch {
  first: number;
  last: number;
  page: EventPage;
}

/** Where a reader stands, and what it gets next. */
export interface Taken {
  /** The number of the last event it then knows of. */
  cursor: number;
  /** How many it has missed before the first of the page. */
  missed: number;
  /** Undefined: it has missed some, and there is nothing after them yet. */
  page: EventPage | undefined;
}

/** The latest events, for readers that each stand somewhere else. Numbers are the store's. */
export class KeptEvents {
  readonly #most: number;
  readonly #stretches: Stretch[] = [];
  #last: number;
  #count = 0;
  /** The pages that were last joined of several stretches: readers in step share them. */
  readonly #joined = new Map<string, EventPage>();

  /** @param last the number of the last event before these; @param most how many are kept */
  constructor(last: number, most: number) {
    this.#last = last;
    this.#most = most;
  }

  /** The number of the last event, kept or not. */
  get last(): number {
    return this.#last;
  }

  /** Events up to number `cursor`; those between the last ones and these were missed. */
  append(events: DibsEvent[], cursor: number): void {
    this.#last = cursor;
    if (events.length === 0) return;
    this.#stretches.push({ first: cursor - events.length + 1, last: cursor, page: new EventPage(events) });
    this.#count += events.length;
    while (this.#count > this.#most && this.#stretches.length > 1)
      this.#count -= this.#stretches.shift()!.page.events.length;
  }

  /** What comes after event `cursor`, at most about `limit` events. Undefined: nothing yet. */
  after(cursor: number, limit: number): Taken | undefined {
    if (cursor >= this.#last) return undefined;
    const at = this.#find(cursor);
    const found = this.#stretches[at];
    if (!found) return { cursor: this.#last, missed: this.#last - cursor, page: undefined };
    const missed = Math.max(0, found.first - cursor - 1);
    if (cursor >= found.first) {
      // It began to read in the middle of a stretch.
      const page = new EventPage(found.page.events.slice(cursor - found.first + 1));
      return { cursor: found.last, missed, page };
    }
    const end = this.#endOf(at, limit);
    return { cursor: this.#stretches[end - 1]!.last, missed, page: this.#join(at, end) };
  }

  /** The first stretch that has something after `cursor`. */
  #find(cursor: number): number {
    let [low, high] = [0, this.#stretches.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#stretches[middle]!.last > cursor) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Behind the last stretch that follows without a hole and fits in. */
  #endOf(at: number, limit: number): number {
    let [end, count] = [at + 1, this.#stretches[at]!.page.events.length];
    for (; end < this.#stretches.length; end++) {
      const { first, page } = this.#stretches[end]!;
      count += page.events.length;
      if (count > limit || first !== this.#stretches[end - 1]!.last + 1) break;
    }
    return end;
  }

  #join(at: number, end: number): EventPage {
    if (end === at + 1) return this.#stretches[at]!.page;
    const key = `${this.#stretches[at]!.first} ${this.#stretches[end - 1]!.last}`;
    let page = this.#joined.get(key);
    if (!page) {
      page = new EventPage(this.#stretches.slice(at, end).flatMap((each) => each.page.events));
      this.#joined.set(key, page);
      if (this.#joined.size > MOST_JOINED) this.#joined.delete(this.#joined.keys().next().value!);
    }
    return page;
  }
}

const MOST_JOINED = 8;
