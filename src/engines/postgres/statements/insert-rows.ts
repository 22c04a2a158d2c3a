import type { Connection } from "../connection/connection.ts";

/** Bulk inserts of rows whose columns differ by table: imports, and the line. */

export type Row = Record<string, string | number | boolean | null>;

/** Inserts many rows in one statement, as JSON. All rows have the same columns. */
export async function insertRows(
  link: Connection,
  table: string,
  rows: readonly Row[],
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
