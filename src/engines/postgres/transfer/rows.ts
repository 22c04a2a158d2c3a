import type { Connection } from "../connection/connection.ts";
import { toText } from "../statements/text.ts";

/** Inserts many rows in one statement, as JSON. All rows have the same columns. */
export async function insertRows(
  link: Connection,
  table: string,
  rows: readonly Record<string, Cell>[],
  conflict = "",
): Promise<void> {
  const [first] = rows;
  if (!first) return;
  const names = Object.keys(first)
    .map((name) => `"${name}"`)
    .join(", ");
  await link.all(
    `INSERT INTO dibs.${table} (${names})
    SELECT ${names} FROM json_populate_recordset(NULL::dibs.${table}, $1::text::json) ${conflict}`,
    JSON.stringify(rows),
  );
}

type Cell = string | number | boolean | null;

/** Text from outside in a form that PostgreSQL can store: JSON may contain half a surrogate pair. */
export function safeText(text: string): string {
  return toText(text.toWellFormed());
}

/** The two columns of a body, as JSON values. */
export function bodyCells(
  body: string | Uint8Array | null | undefined,
): [text: string | null, bytes: string | null] {
  if (body == null) return [null, null];
  if (typeof body === "string") return [safeText(body), null];
  return [null, `\\x${Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("hex")}`];
}

/** The rows of a query, `some` at a time, by a cursor of the open transaction. */
export async function* walk<Row>(link: Connection, sql: string, some: number): AsyncGenerator<Row[]> {
  await link.exec(`DECLARE walk NO SCROLL CURSOR FOR ${sql}`);
  for (;;) {
    const rows = await link.all<Row>(`FETCH ${some} FROM walk`);
    if (rows.length > 0) yield rows;
    if (rows.length < some) break;
  }
  await link.exec(`CLOSE walk`);
}
