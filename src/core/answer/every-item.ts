import { LIMITS } from "../input/limits.ts";
import type { Paged } from "./page.ts";

/** Reads a list page by page to its end, for callers that need all of it. Each page is bounded, the result is not. */
export async function everyItem<Item>(
  read: (page: { after?: string; limit: number }) => Promise<Paged<Item>>,
): Promise<Item[]> {
  const items: Item[] = [];
  let page = await read({ limit: LIMITS.page });
  for (;;) {
    for (const item of page.items) items.push(item);
    if (page.next === null) return items;
    page = await read({ after: page.next, limit: LIMITS.page });
  }
}
