import { EventPage } from "../core/event-page.ts";
import type { DibsEvent } from "../core/events.ts";

/** Numbered events without a gap between them. */
interface Segment {
  first: number;
  last: number;
  page: EventPage;
}

/** What a reader gets next. */
export interface ReadEvents {
  /** The number of the last event that it then knows. */
  cursor: number;
  /** How many it missed before the first event of the page. */
  missed: number;
  /** Undefined: it missed some, and there is nothing after them yet. */
  page: EventPage | undefined;
}

/** The latest events, for readers at different positions. The store assigns the numbers. */
export class RecentEvents {
  readonly #most: number;
  readonly #segments: Segment[] = [];
  #last: number;
  #count = 0;
  /** The latest pages that were joined from several segments: readers at the same position share them. */
  readonly #joined = new Map<string, EventPage>();

  /** @param last the number of the last event before these; @param most how many are kept */
  constructor(last: number, most: number) {
    this.#last = last;
    this.#most = most;
  }

  /** The number of the last event, in memory or not. */
  get last(): number {
    return this.#last;
  }

  /** Events up to number `cursor`. Those between the last ones and these were missed. */
  append(events: DibsEvent[], cursor: number): void {
    this.#last = cursor;
    if (events.length === 0) return;
    this.#segments.push({ first: cursor - events.length + 1, last: cursor, page: new EventPage(events) });
    this.#count += events.length;
    while (this.#count > this.#most && this.#segments.length > 1)
      this.#count -= this.#segments.shift()!.page.events.length;
  }

  /** What comes after event `cursor`, at most about `limit` events. Undefined: nothing yet. */
  after(cursor: number, limit: number): ReadEvents | undefined {
    if (cursor >= this.#last) return undefined;
    const at = this.#find(cursor);
    const found = this.#segments[at];
    if (!found) return { cursor: this.#last, missed: this.#last - cursor, page: undefined };
    const missed = Math.max(0, found.first - cursor - 1);
    if (cursor >= found.first) {
      // The reader started in the middle of a segment.
      const page = new EventPage(found.page.events.slice(cursor - found.first + 1));
      return { cursor: found.last, missed, page };
    }
    const end = this.#endOf(at, limit);
    return { cursor: this.#segments[end - 1]!.last, missed, page: this.#join(at, end) };
  }

  /** The first segment with events after `cursor`. */
  #find(cursor: number): number {
    let [low, high] = [0, this.#segments.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#segments[middle]!.last > cursor) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The index after the last segment that follows without a gap and fits. */
  #endOf(at: number, limit: number): number {
    let [end, count] = [at + 1, this.#segments[at]!.page.events.length];
    for (; end < this.#segments.length; end++) {
      const { first, page } = this.#segments[end]!;
      count += page.events.length;
      if (count > limit || first !== this.#segments[end - 1]!.last + 1) break;
    }
    return end;
  }

  #join(at: number, end: number): EventPage {
    if (end === at + 1) return this.#segments[at]!.page;
    const key = `${this.#segments[at]!.first} ${this.#segments[end - 1]!.last}`;
    let page = this.#joined.get(key);
    if (!page) {
      page = new EventPage(this.#segments.slice(at, end).flatMap((each) => each.page.events));
      this.#joined.set(key, page);
      if (this.#joined.size > MOST_JOINED) this.#joined.delete(this.#joined.keys().next().value!);
    }
    return page;
  }
}

const MOST_JOINED = 8;
