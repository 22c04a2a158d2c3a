import type { ImportRow } from "../../../engine/import-rows.ts";
import type { Connection } from "../connection/connection.ts";
import type { Row } from "../statements/insert-rows.ts";
import { toText } from "../statements/text.ts";

/** The column for bodies that are bytes, by table. Those that are text are in the column that the import names. */
const BYTES: Record<string, string> = {
  ...{ task: "bytes", step: "bytes", run_signal: "bytes" },
  ...{ run: "result_bytes", run_part: "result_bytes", child: "result_bytes" },
  ...{ verifying: "result_bytes", ended: "result_bytes" },
};

/** A row of an import as values of JSON, with text in a form that PostgreSQL can store. */
export function cellsOf(table: string, row: ImportRow): Row {
  const bytes = BYTES[table];
  const cells: Row = bytes === undefined ? {} : { [bytes]: null };
  for (const [name, value] of Object.entries(row)) {
    const isBytes = value instanceof Uint8Array;
    if (isBytes) cells[bytes!] = `\\x${Buffer.from(value).toString("hex")}`;
    // JSON may contain half a surrogate pair.
    cells[name] = isBytes ? null : typeof value === "string" ? toText(value.toWellFormed()) : value;
  }
  return cells;
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
