import type { EventPage } from "../src/core/event/event-page.ts";
import type { DibsEvent } from "../src/core/event/events.ts";

/** The events of pages, one by one. */
export async function* eachEvent(pages: AsyncIterable<EventPage>): AsyncGenerator<DibsEvent, void, void> {
  for await (const { events } of pages) yield* events;
}
