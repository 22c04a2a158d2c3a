import type { Paged } from "../../../src/core/answer/page.ts";
import type { PageRequest } from "../../../src/engine/engine.ts";

/** The page that a list must answer, computed from all its rows in their order. */
export function expectedPage<Item>(
  rows: readonly { key: string | number; item: Item }[],
  { after, limit }: PageRequest,
): Paged<Item> {
  const [start] = after === undefined ? [] : (JSON.parse(after) as [string | number]);
  const left = rows.filter(({ key }) => start === undefined || key > start);
  return {
    items: left.slice(0, limit).map(({ item }) => item),
    next: left.length > limit ? JSON.stringify([left[limit - 1]!.key]) : null,
  };
}
