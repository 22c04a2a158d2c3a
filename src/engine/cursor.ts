import { fitting } from "../core/answer/answer-size.ts";
import { invalid } from "../core/errors/errors.ts";
import { isPlainText } from "../core/input/options.ts";
import type { Paged } from "../core/answer/page.ts";
import { show } from "../core/errors/show.ts";
import type { TaskState } from "../core/task/task.ts";

/**
 * The pages of every list: where one ends, and where the next begins. All engines use it, so that they give and accept
 * the same cursors.
 */

/** Where a row is in the order of its list. A cursor is the key of the last row of a page, as JSON. */
export type SortKey = (number | string)[];
export type KeyTypes = readonly ("number" | "string")[];

const TWO_NUMBERS: KeyTypes = ["number", "number"];
const KEYS_OF_TASKS: Partial<Record<TaskState, KeyTypes>> = {
  claimed: ["number"],
  verifying: ["number"],
  waiting: ["string", "number"],
};

export function taskKeyTypes(state: TaskState): KeyTypes {
  return KEYS_OF_TASKS[state] ?? TWO_NUMBERS;
}

export function cursorOf(key: SortKey): string {
  return JSON.stringify(key);
}

/** Clients can send any text: only keys that a store can compare with its own are accepted. */
export function parseCursor(after: string, types: KeyTypes): SortKey {
  try {
    const key = JSON.parse(after) as SortKey;
    if (key.length === types.length && types.every((type, i) => isKeyPart(key[i], type))) return key;
  } catch {
    // Refused below, with every other text that no page ended with.
  }
  throw invalid(`after must be the \`next\` of the page before; got ${show(after)}.`);
}

function isKeyPart(part: unknown, type: KeyTypes[number]): boolean {
  if (type === "number") return Number.isSafeInteger(part);
  return typeof part === "string" && isPlainText(part);
}

/** The name after which a list by name continues: "" is before all names. */
export function nameAfter(after: string | undefined): string {
  return after === undefined ? "" : (parseCursor(after, ["string"])[0] as string);
}

/** The number after which a list by number continues. */
export function numberAfter(after: string | undefined): number {
  return after === undefined ? 0 : (parseCursor(after, ["number"])[0] as number);
}

/**
 * The first `limit` rows that fit into one answer. `rows` has at least one more than the limit, if the list has one
 * more.
 */
export function pageOf<Row>(
  rows: readonly Row[],
  limit: number,
  { sizeOf, keyOf }: { sizeOf: (row: Row) => number; keyOf: (row: Row) => SortKey },
): Paged<Row> {
  const items = fitting(rows.slice(0, limit), sizeOf);
  return { items, next: nextOf(rows, items.length, keyOf) };
}

/** The cursor of a page of the first `count` rows: null if there are no more. */
export function nextOf<Row>(
  rows: readonly Row[],
  count: number,
  keyOf: (row: Row) => SortKey,
): string | null {
  return rows.length > count ? cursorOf(keyOf(rows[count - 1]!)) : null;
}

/** Maps the items of a page, and keeps its cursor. */
export function mapPage<From, To>({ items, next }: Paged<From>, map: (item: From) => To): Paged<To> {
  return { items: items.map(map), next };
}
