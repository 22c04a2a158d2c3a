import type { Connection } from "../connection/connection.ts";
import { toText } from "../statements/text.ts";

/** Many rows in one statement, as JSON: columns by name and type. */
export async function insertRows<Row extends Record<string, Cell>>(
  link: Connection,
  table: string,
  columns: Partial<Record<keyof Row & string, string>>,
  rows: readonly Row[],
  conflict = "",
): Promise<void> {
  if (rows.length === 0) return;
  const names = Object.keys(columns)
    .map((name) => `"${name}"`)
    .join(", ");
  const types = Object.entries(columns)
    .map(([name, type]) => `"${name}" ${type}`)
    .join(", ");
  await link.all(
    `INSERT INTO dibs.${table} (${names}) SELECT ${names} FROM json_to_recordset($1::text::json) AS each (${types}) ${conflict}`,
    JSON.stringify(rows),
  );
}

type Cell = string | number | boolean | null;

/** Text that may have come from anywhere, as JSON can bring it to PostgreSQL: half a surrogate pair cannot be stored. */
export function safeText(text: string): string {
  return toText(text.toWellFormed());
}

/** A body in its two columns. */
export function bodyCells(
  body: string | Uint8Array | null | undefined,
): [text: string | null, bytes: string | null] {
  if (body == null) return [null, null];
  if (typeof body === "string") return [safeText(body), null];
  return [null, `\\x${Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("hex")}`];
}

/** The rows of a statement, some at a time, within a transaction. */
export async function* walk<Row>(link: Connection, sql: string, some: number): AsyncGenerator<Row[]> {
  await link.exec(`DECLARE walk NO SCROLL CURSOR FOR ${sql}`);
  for (;;) {
    const rows = await link.all<Row>(`FETCH ${some} FROM walk`);
    if (rows.length > 0) yield rows;
    if (rows.length < some) break;
  }
  await link.exec(`CLOSE walk`);
}
