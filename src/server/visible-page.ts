import { LIMITS } from "../core/input/limits.ts";

/** What all lists have in common. Most cursors are texts, those of runs are numbers. */
interface Query<Cursor> {
  after?: Cursor | undefined;
  limit?: number | undefined;
}

interface Page<Item, Cursor> {
  items: Item[];
  next: Cursor | null;
}

/**
 * A page of the items that a token sees, for guard.ts. It ends with such an item, because its `next` names its last
 * item: the cursor after a hidden one would reveal that it exists. Pages of only hidden items are skipped.
 */
export async function visiblePage<Item, Cursor, Given extends Query<Cursor>>(
  query: Given | undefined,
  read: (query: Given | undefined) => Promise<Page<Item, Cursor>>,
  sees: (item: Item) => boolean,
): Promise<Page<Item, Cursor>> {
  // As the caller gave it, so that the port refuses what is not valid.
  let page = await read(query);
  const most = query?.limit ?? LIMITS.page;
  let { after } = query ?? {};
  for (;;) {
    const { items, next } = page;
    const visible = items.filter(sees);
    const endsVisibly = next === null || visible.at(-1) === items.at(-1);
    if (visible.length <= most && endsVisibly) return { items: visible, next };
    const isHidden = visible.length === 0;
    if (isHidden) after = next!;
    const limit = isHidden ? LIMITS.page : items.indexOf(visible.at(Math.min(most, visible.length) - 1)!) + 1;
    page = await read({ ...(query as Given), after, limit });
  }
}
