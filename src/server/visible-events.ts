import type { EventPage } from "../core/event/event-page.ts";
import type { DibsEvent } from "../core/event/events.ts";
import type { Grant } from "./scopes.ts";

/** The events that a token may see, for guard.ts. */
export function visibleEvents(
  pages: AsyncIterableIterator<EventPage>,
  grant: Grant,
): AsyncIterableIterator<EventPage> {
  return grant.allowsAll("read") ? pages : visiblePages(pages, grant);
}

/** Computed once for all tokens with the same scopes. */
async function* visiblePages(
  pages: AsyncIterableIterator<EventPage>,
  grant: Grant,
): AsyncGenerator<EventPage, void, void> {
  for await (const page of pages) {
    const visible = page.derive(grant.scopes, () => page.filter(isVisible));
    if (visible.length > 0) yield visible;
  }

  /** A worker serves several queues, so events about workers go only to tokens that may read all queues. */
  function isVisible(event: DibsEvent): boolean {
    return event.type === "gap" || ("queue" in event && grant.allows("read", event.queue));
  }
}
