import { EventPage } from "../core/event-page.ts";
import { gapText, spanOf, spanOfAll, timeOf } from "../core/event-text.ts";

/** Events that the store returned together; gaps among them stand for the numbers that are missing. */
interface Stretch {
  first: number;
  last: number;
  page: EventPage;
}

/** Where a reader stands, and what it gets next. */
export interface Taken {
  /** The number of the last event it then knows of. */
  cursor: number;
  /** How many it has missed before the first event of the page. */
  missed: number;
  /** Undefined: it has missed some, and there is nothing after them yet. */
  page: EventPage | undefined;
}

/** The latest events, for readers that each stand somewhere else. Numbers are the store's. */
export class RecentEvents {
  readonly #most: number;
  readonly #stretches: Stretch[] = [];
  #last: number;
  #count = 0;
  /** The pages that were last joined from several stretches: readers in step share them. */
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

  /** Adds what the store returned, up to number `cursor`. Returns how many are missing before the first of them. */
  append(events: readonly string[], cursor: number): number {
    const first = cursor - spanOfAll(events) + 1;
    const missed = first - this.#last - 1;
    this.#last = cursor;
    if (events.length === 0) return missed;
    this.#stretches.push({ first, last: cursor, page: EventPage.ofTexts(events) });
    this.#count += events.length;
    while (this.#count > this.#most && this.#stretches.length > 1)
      this.#count -= this.#stretches.shift()!.page.length;
    return missed;
  }

  /** What comes after event `cursor`, at most about `limit` events. Undefined: nothing yet. */
  after(cursor: number, limit: number): Taken | undefined {
    if (cursor >= this.#last) return undefined;
    const at = this.#find(cursor);
    const found = this.#stretches[at];
    if (!found) return { cursor: this.#last, missed: this.#last - cursor, page: undefined };
    if (cursor >= found.first) return restOf(found, cursor);
    const missed = found.first - cursor - 1;
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

  /** Behind the last stretch that fits in. */
  #endOf(at: number, limit: number): number {
    let [end, count] = [at + 1, this.#stretches[at]!.page.length];
    for (; end < this.#stretches.length; end++) {
      count += this.#stretches[end]!.page.length;
      if (count > limit) break;
    }
    return end;
  }

  #join(at: number, end: number): EventPage {
    if (end === at + 1) return this.#stretches[at]!.page;
    const key = `${this.#stretches[at]!.first} ${this.#stretches[end - 1]!.last}`;
    let page = this.#joined.get(key);
    if (!page) {
      page = EventPage.ofTexts(joinedTexts(this.#stretches.slice(at, end)));
      this.#joined.set(key, page);
      if (this.#joined.size > MOST_JOINED) this.#joined.delete(this.#joined.keys().next().value!);
    }
    return page;
  }
}

const MOST_JOINED = 8;

/** For a reader that began in the middle of a stretch. */
function restOf({ first, last, page }: Stretch, cursor: number): Taken {
  const { texts } = page;
  let [at, next] = [0, first];
  while (next <= cursor) next += spanOf(texts[at++]!);
  return { cursor: last, missed: next - cursor - 1, page: EventPage.ofTexts(texts.slice(at)) };
}

/** Their events, with a gap where some are missing between two of them. */
function joinedTexts(stretches: readonly Stretch[]): string[] {
  const texts: string[] = [];
  for (const [index, { first, page }] of stretches.entries()) {
    const missed = index === 0 ? 0 : first - stretches[index - 1]!.last - 1;
    if (missed > 0) texts.push(gapText(timeOf(page.texts[0]!), missed));
    for (const text of page.texts) texts.push(text);
  }
  return texts;
}
