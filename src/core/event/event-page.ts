import type { DibsEvent } from "./events.ts";

/**
 * Events that readers get together, in their order. All readers share one page: its events are frozen, and whatever is
 * made of it (its parsed events, the bytes that a door sends, what a token may see of it) is made once.
 */
export class EventPage {
  /**
   * A page is created from one of these. The other one is made on first use, because a server passes most pages on as
   * text.
   */
  #texts: readonly string[] | undefined;
  #events: readonly DibsEvent[] | undefined;
  readonly #derived = new Map<unknown, unknown>();

  /** @param texts each event as JSON */
  static ofTexts(texts: readonly string[]): EventPage {
    const page = new EventPage();
    page.#texts = texts;
    return page;
  }

  static of(events: readonly DibsEvent[]): EventPage {
    const page = new EventPage();
    page.#events = frozen(events);
    return page;
  }

  private constructor() {}

  get length(): number {
    return (this.#texts ?? this.#events)!.length;
  }

  /** Each event as JSON. */
  get texts(): readonly string[] {
    return (this.#texts ??= this.#events!.map((event) => JSON.stringify(event)));
  }

  get events(): readonly DibsEvent[] {
    return (this.#events ??= frozen(JSON.parse(listOf(this.#texts!)) as DibsEvent[]));
  }

  /** The events as a JSON list. */
  get text(): string {
    return this.derive(listOf, () => listOf(this.texts));
  }

  /** A page with those events for which `keep` is true. */
  filter(keep: (event: DibsEvent) => boolean): EventPage {
    const { events, texts } = this;
    return EventPage.ofTexts(texts.filter((_, index) => keep(events[index]!)));
  }

  /** What `make` makes of the page, made once for each key. */
  derive<T>(key: unknown, make: (page: EventPage) => T): T {
    if (!this.#derived.has(key)) this.#derived.set(key, make(this));
    return this.#derived.get(key) as T;
  }
}

function listOf(texts: readonly string[]): string {
  return `[${texts.join(",")}]`;
}

function frozen(events: readonly DibsEvent[]): readonly DibsEvent[] {
  for (const event of events) Object.freeze(event);
  return events;
}
