import type { Tx } from "./tx.ts";

const ONE = `SELECT name, value FROM document WHERE kind = ? AND name = ?`;
const ALL = `SELECT name, value FROM document WHERE kind = ? ORDER BY name`;
const PUT = `INSERT OR REPLACE INTO document (kind, name, value) VALUES (?, ?, ?)`;
const DELETE = `DELETE FROM document WHERE kind = ? AND name = ?`;

interface Document {
  name: string;
  value: string;
}

/** The same again is not written: every commit wakes the other processes. */
export function put(tx: Tx, kind: string, name: string, value: string | null): { before: string | null } {
  const before = tx.get<Document>(ONE, kind, name)?.value ?? null;
  if (value === null) tx.run(DELETE, kind, name);
  else if (value !== before) tx.run(PUT, kind, name, value);
  return { before };
}

export function documents(tx: Tx, kind: string, name: string | undefined): Document[] {
  return name === undefined ? tx.all<Document>(ALL, kind) : tx.all<Document>(ONE, kind, name);
}
