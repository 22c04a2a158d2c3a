import type { Headers } from "../../../core/task/task.ts";

/**
 * Content types and headers of many tasks as columns, for pack.ts. Tasks that follow each other and have headers with
 * the same names share one shape; then only the values of their headers cross the threads, as one list of texts.
 */
export interface HeaderColumns {
  shapes: Shape[];
  values: string[];
}

interface Shape {
  /** How many tasks have it. */
  count: number;
  contentType: string | undefined;
  names: string[] | undefined;
}

interface Headed {
  contentType?: string;
  headers?: Headers;
}

export function headerColumns(): HeaderColumns {
  return { shapes: [], values: [] };
}

/** Adds the next task to the columns. */
export function packHeaders({ shapes, values }: HeaderColumns, { contentType, headers }: Headed): void {
  const last = shapes.at(-1);
  if (last && last.contentType === contentType && haveNames(headers, last.names)) last.count++;
  else shapes.push({ count: 1, contentType, names: headers && Object.keys(headers) });
  for (const name in headers) values.push(headers[name]!);
}

function haveNames(headers: Headers | undefined, names: readonly string[] | undefined): boolean {
  if (!headers || !names) return !headers && !names;
  let count = 0;
  for (const name in headers) if (names[count++] !== name) return false;
  return count === names.length;
}

/** Calls `fn` for each task, in order, with its shape's content type and its headers. */
export function unpackHeaders(
  { shapes, values }: HeaderColumns,
  fn: (index: number, contentType: string | undefined, headers: Headers | undefined) => void,
): void {
  let index = 0;
  let at = 0;
  for (const { count, contentType, names } of shapes) {
    for (const end = index + count; index < end; index++) {
      fn(index, contentType, names && headersFrom(names, values, at));
      at += names?.length ?? 0;
    }
  }
}

/** Also for names such as `__proto__`, which an assignment would treat otherwise. */
function headersFrom(names: readonly string[], values: readonly string[], at: number): Headers {
  if (names.length === 0) return NO_HEADERS;
  if (names.length === 1) return { [names[0]!]: values[at]! };
  return Object.fromEntries(names.map((name, i) => [name, values[at + i]!]));
}

const NO_HEADERS: Headers = Object.freeze({});
