import type { Tx } from "../transaction/tx.ts";

/** Inserts of rows whose columns differ by table: imports. */

/** By table: all rows of a table have the same columns. */
const INSERTS = new Map<string, string>();

export function insertRow(
  tx: Tx,
  table: string,
  row: Record<string, string | number | boolean | Uint8Array | null>,
): void {
  let sql = INSERTS.get(table);
  if (sql === undefined) {
    const names = Object.keys(row);
    sql = `INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`;
    INSERTS.set(table, sql);
  }
  const values = Object.values(row).map((value) => (typeof value === "boolean" ? Number(value) : value));
  tx.run(sql, ...values);
}
