import type { Body } from "../../../core/task/task.ts";

/**
 * PostgreSQL's text cannot contain NUL. In values from outside (payloads, results, errors, notes) it is written as the
 * escape character and a digit, and so is the escape character itself.
 */
const ESCAPE = "\u0001";
// oxlint-disable-next-line no-control-regex -- these two characters are escaped
const TO_ESCAPE = /[\u0000\u0001]/;
// oxlint-disable-next-line no-control-regex
const ALL_TO_ESCAPE = /[\u0000\u0001]/g;
// oxlint-disable-next-line no-control-regex
const ESCAPED = /\u0001([01]?)/g;

export function toText(text: string): string {
  return TO_ESCAPE.test(text)
    ? text.replace(ALL_TO_ESCAPE, (sign) => ESCAPE + (sign === ESCAPE ? "1" : "0"))
    : text;
}

/** The end of a truncated text may be half of an escape sequence, which is dropped. */
export function fromText(text: string): string {
  return text.includes(ESCAPE) ? text.replace(ESCAPED, (_, digit: string) => UNESCAPED[digit]!) : text;
}

const UNESCAPED: Record<string, string> = { 0: "\0", 1: ESCAPE, "": "" };

/** A body in its two columns. */
export function toColumns(body: Body | null): [text: string | null, bytes: Uint8Array | null] {
  if (body === null) return [null, null];
  return typeof body === "string" ? [toText(body), null] : [null, body];
}

export function fromColumns(text: string | null, bytes: Uint8Array | null): Body | null {
  if (text !== null) return fromText(text);
  // A copy: Node's Buffer is a view on a shared pool.
  return bytes === null ? null : new Uint8Array(bytes);
}

/** An array literal. To encode an array of numbers, `pg` takes ten times as long. */
export function numbers(values: readonly number[]): string {
  return `{${values.join(",")}}`;
}

/** In all statements `dibs.` stands for the schema. Quoted: a schema may be called "order". */
export function inSchema(sql: string, schema: string): string {
  return schema === "dibs" ? sql : sql.replaceAll("dibs.", `"${schema}".`);
}
