import { storedHeaders } from "../../../core/task/add-rules.ts";
import type { Body, NewTask } from "../../../core/task/task.ts";
import { toColumns } from "../statements/text.ts";

/** The parameters of statements that insert tasks: an array for each column, or null for a column without values. */

/**
 * Payloads are passed as one text, joined by a character that none of them contains: to parse an array of texts takes the
 * server as long as to write it. Adds of one task each ran at 63 (58 to 63) thousand a second with this and at 39 (28 to 60)
 * without, batches of 500 at 90 (51 to 93) and 83 (60 to 102); medians and ranges of three interleaved rounds.
 */
const SEPARATOR = "\u001e";

export type Payloads = "joined" | "listed";

export const textsSql = (value: string, payloads: Payloads): string =>
  payloads === "joined" ? `string_to_table(${value}::text, E'\\x1e')` : `unnest(${value}::text[])`;

// JSON does not contain the character unescaped. An empty text means no headers.
export const headersSql = (value: string): string => `string_to_table(${value}::text, E'\\x1e', '')`;

export function bodiesOf(tasks: readonly { data: Body }[]): {
  payloads: Payloads;
  texts: string | (string | null)[] | null;
  bytes: (Uint8Array | null)[] | null;
} {
  const bodies = tasks.map(({ data }) => toColumns(data));
  const texts = bodies.map(([text]) => text);
  const bytes = column(bodies.map(([, each]) => each));
  // An empty payload cannot be told from a missing one.
  const canJoin = texts.every((text) => text !== null && text !== "" && !text.includes(SEPARATOR));
  return canJoin
    ? { payloads: "joined", texts: texts.join(SEPARATOR), bytes }
    : { payloads: "listed", texts: column(texts), bytes };
}

export function headersColumn(tasks: readonly Pick<NewTask, "headers">[]): string | null {
  return column(tasks.map(storedHeaders))?.join(SEPARATOR) ?? null;
}

/** Null for a column without values: ROWS FROM fills it with nulls. */
export function column<T>(values: (T | null)[]): (T | null)[] | null {
  return values.every((value) => value === null) ? null : values;
}
