import type { DibsEvent } from "./events.ts";

/**
 * A page of events in their order. All readers of a process share it: its events are frozen, and anything derived from
 * it (its JSON, what a token may see of it) is computed once.
 */
export class EventPage {
  readonly events: readonly DibsEvent[];
  readonly #derived = new Map<unknown, unknown>();

  constructor(events: readonly DibsEvent[]) {
    this.events = events;
    for (const event of events) Object.freeze(event);
  }

  /** The events as a JSON list. */
  get text(): string {
    return this.derive("text", () => JSON.stringify(this.events));
  }

  /** Returns what `make` derives from the page, computed once per key. */
  derive<T>(key: unknown, make: (page: EventPage) => T): T {
    if (!this.#derived.has(key)) this.#derived.set(key, make(this));
    return this.#derived.get(key) as T;
  }
}

/** The events of pages, one by one. */
export async function* eachEvent(pages: AsyncIterable<EventPage>): AsyncGenerator<DibsEvent, void, void> {
  for await (const { events } of pages) yield* events;
}
