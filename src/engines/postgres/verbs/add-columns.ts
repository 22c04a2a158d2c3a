import { type Body, type Headers, JSON_TYPE, type NewTask } from "../../../core/task.ts";
import { toColumns } from "../statements/text.ts";

/** How tasks that are added together travel: a list for each column, and null for one that has nothing in it. */

/**
 * Payloads travel as one text, cut at a sign that none of them has: an array of texts takes as long to read as to write. So
 * it is cut into rows at once.
 */
const CUT = "\u001e";

export type Payloads = "joined" | "listed";

export const textsSql = (value: string, payloads: Payloads): string =>
  payloads === "joined" ? `string_to_table(${value}::text, E'\\x1e')` : `unnest(${value}::text[])`;

// JSON has no such sign, and no headers are an empty text.
export const headersSql = (value: string): string => `string_to_table(${value}::text, E'\\x1e', '')`;

export function bodiesOf(tasks: readonly { data: Body }[]): {
  payloads: Payloads;
  texts: string | (string | null)[] | null;
  bytes: (Uint8Array | null)[] | null;
} {
  const bodies = tasks.map(({ data }) => toColumns(data));
  const texts = bodies.map(([text]) => text);
  const bytes = column(bodies.map(([, each]) => each));
  // An empty text would be no payload at all, and not one that is empty.
  const canJoin = texts.every((text) => text !== null && text !== "" && !text.includes(CUT));
  return canJoin
    ? { payloads: "joined", texts: texts.join(CUT), bytes }
    : { payloads: "listed", texts: column(texts), bytes };
}

export function headersColumn(tasks: readonly Pick<NewTask, "headers">[]): string | null {
  return column(tasks.map(headersOf))?.join(CUT) ?? null;
}

/** Null in place of a column that has nothing in it: unnest fills it up. */
export function column<T>(values: (T | null)[]): (T | null)[] | null {
  return values.every((value) => value === null) ? null : values;
}

/** As they are stored: null for what is the default. */
export function contentTypeOf({ contentType }: Pick<NewTask, "contentType">): string | null {
  return contentType === undefined || contentType === JSON_TYPE ? null : contentType;
}

export function headersOf({ headers }: Pick<NewTask, "headers">): string | null {
  if (headers === undefined) return null;
  // The copies of what is published share theirs.
  if (headers !== lastHeaders.headers) lastHeaders = { headers, text: JSON.stringify(headers) };
  return lastHeaders.text === "{}" ? null : lastHeaders.text;
}

let lastHeaders: { headers: Headers | undefined; text: string } = { headers: undefined, text: "" };
