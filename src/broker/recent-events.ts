import { EventPage } from "../core/event/event-page.ts";
import { isImportant } from "../core/event/events.ts";
import { gapText, spanOf, spanOfAll, timeOf, typeOf } from "../core/event/event-text.ts";

/** The events of one answer of the store, with a gap event wherever numbers are missing. */
interface Segment {
  first: number;
  last: number;
  page: EventPage;
}

/** What a reader gets next. */
export interface ReadEvents {
  /** The reader's new position: the number of the last event that this answer covers. */
  cursor: number;
  /** How many it missed before the first event of the page. */
  missed: number;
  /** Undefined: the reader missed some events, and there are none after them yet. */
  page: EventPage | undefined;
}

/**
 * The latest events, for readers at different positions, and important events from before them. The store assigns the
 * numbers.
 */
export class RecentEvents {
  readonly #most: number;
  readonly #segments: Segment[] = [];
  /** How many segments at the front have only important events left. */
  #thinned = 0;
  #last: number;
  #count = 0;
  /** The pages that were last joined from several segments: readers at the same position share them. */
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

  /** Adds what the store returned, up to number `cursor`. Returns how many are missing before the first of them. */
  append(events: readonly string[], cursor: number): number {
    const first = cursor - spanOfAll(events) + 1;
    const missed = first - this.#last - 1;
    this.#last = cursor;
    if (events.length === 0) return missed;
    this.#segments.push({ first, last: cursor, page: EventPage.ofTexts(events) });
    this.#count += events.length;
    while (this.#count > this.#most && this.#segments.length > this.#thinned + 1) this.#thin();
    return missed;
  }

  /** Leaves only the important events of the oldest segment that has others. */
  #thin(): void {
    const oldest = this.#segments[this.#thinned]!;
    this.#count -= oldest.page.length;
    const important = importantOf(oldest);
    if (!important) return void this.#segments.splice(this.#thinned, 1);
    this.#segments[this.#thinned++] = important;
    if (this.#thinned <= MOST_THINNED) return;
    this.#segments.shift();
    this.#thinned--;
  }

  /** What comes after event `cursor`, at most about `limit` events. Undefined: nothing yet. */
  after(cursor: number, limit: number): ReadEvents | undefined {
    if (cursor >= this.#last) return undefined;
    const at = this.#find(cursor);
    const found = this.#segments[at];
    if (!found) return { cursor: this.#last, missed: this.#last - cursor, page: undefined };
    if (cursor >= found.first) return restOf(found, cursor);
    const missed = found.first - cursor - 1;
    const end = this.#endOf(at, limit);
    return { cursor: this.#segments[end - 1]!.last, missed, page: this.#join(at, end) };
  }

  /** The first segment that has something after `cursor`. */
  #find(cursor: number): number {
    let [low, high] = [0, this.#segments.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#segments[middle]!.last > cursor) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The index after the last segment that fits into `limit`. */
  #endOf(at: number, limit: number): number {
    let [end, count] = [at + 1, this.#segments[at]!.page.length];
    for (; end < this.#segments.length; end++) {
      count += this.#segments[end]!.page.length;
      if (count > limit) break;
    }
    return end;
  }

  #join(at: number, end: number): EventPage {
    if (end === at + 1) return this.#segments[at]!.page;
    const key = `${this.#segments[at]!.first} ${this.#segments[end - 1]!.last}`;
    let page = this.#joined.get(key);
    if (!page) {
      page = EventPage.ofTexts(joinedTexts(this.#segments.slice(at, end)));
      this.#joined.set(key, page);
      if (this.#joined.size > MOST_JOINED) this.#joined.delete(this.#joined.keys().next().value!);
    }
    return page;
  }
}

const MOST_JOINED = 8;
const MOST_THINNED = 200;

/** The part of a segment from its first important event to its last, with gaps for the others. */
function importantOf({ first, page }: Segment): Segment | undefined {
  const texts: string[] = [];
  let [start, end, next] = [0, 0, first];
  for (const text of page.texts) {
    const n = next;
    next += spanOf(text);
    const type = typeOf(text);
    if (type === "gap" || !isImportant(type)) continue;
    if (texts.length === 0) start = n;
    else if (n > end + 1) texts.push(gapText(timeOf(text), n - end - 1));
    texts.push(text);
    end = n;
  }
  return texts.length > 0 ? { first: start, last: end, page: EventPage.ofTexts(texts) } : undefined;
}

/** The rest of a segment, for a reader whose position is in the middle of it. */
function restOf({ first, last, page }: Segment, cursor: number): ReadEvents {
  const { texts } = page;
  let [at, next] = [0, first];
  while (next <= cursor) next += spanOf(texts[at++]!);
  return { cursor: last, missed: next - cursor - 1, page: EventPage.ofTexts(texts.slice(at)) };
}

/** Their events, with a gap where some are missing between two of them. */
function joinedTexts(segments: readonly Segment[]): string[] {
  const texts: string[] = [];
  for (const [index, { first, page }] of segments.entries()) {
    const missed = index === 0 ? 0 : first - segments[index - 1]!.last - 1;
    if (missed > 0) texts.push(gapText(timeOf(page.texts[0]!), missed));
    for (const text of page.texts) texts.push(text);
  }
  return texts;
}
