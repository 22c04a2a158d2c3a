import type { QueueRow } from "../api/contract.ts";

/** A row without a sparkline keeps the one it had. */
export function mergeRows(
  before: ReadonlyMap<string, QueueRow> | null,
  { rows, removed = [] }: { rows: QueueRow[]; removed?: string[] },
): ReadonlyMap<string, QueueRow> {
  const after = new Map(before ?? []);
  for (const row of rows) {
    const spark = row.spark ?? after.get(row.name)?.spark;
    after.set(row.name, spark === undefined ? row : { ...row, spark });
  }
  for (const name of removed) after.delete(name);
  return after;
}
