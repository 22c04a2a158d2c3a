import { storedUniqueKey } from "./unique.ts";
import type { Headers } from "./task.ts";

/**
 * Which tasks of a list are wanted. All given fields must match. A key is found by its index. Everything else is compared
 * with at most BOUNDS.search tasks per page, in the order of the list: `searched` of the page says with how many.
 */
export interface TaskMatch {
  /** The task that has the key now: at most one. */
  idempotencyKey?: string;
  uniqueKey?: string;
  groupKey?: string;
  /** All of these headers, with these values. */
  headers?: Headers;
}

/** The key as it is stored; undefined if no key is wanted. */
export function storedKeyOf({ idempotencyKey, uniqueKey }: TaskMatch): string | undefined {
  return uniqueKey === undefined ? idempotencyKey : storedUniqueKey(uniqueKey);
}

/** Whether it needs to be compared with tasks one by one. */
export function isCompared({ groupKey, headers }: TaskMatch): boolean {
  return groupKey !== undefined || headers !== undefined;
}

export function matchesTask(
  { groupKey, headers = {} }: TaskMatch,
  task: { groupKey: string | null; headers: Headers },
): boolean {
  return (
    (groupKey === undefined || task.groupKey === groupKey) &&
    Object.entries(headers).every(
      ([name, value]) => Object.hasOwn(task.headers, name) && task.headers[name] === value,
    )
  );
}

/** A part of the stored headers of every task that matches, so that the store reads few others; null without headers. */
export function storedHeaderPart({ headers = {} }: TaskMatch): string | null {
  const [first] = Object.entries(headers);
  return first ? `${JSON.stringify(first[0])}:${JSON.stringify(first[1])}` : null;
}

/** Where a search over `rows` ends if its answer has the first `shown` of the `hits` (indexes in `rows`). */
export function endOfSearch(
  { length, isAll }: { length: number; isAll: boolean },
  hits: readonly number[],
  shown: number,
): { searched: number; isOver: boolean } {
  const searched = shown < hits.length ? hits[shown - 1]! + 1 : length;
  return { searched, isOver: isAll && searched === length };
}
