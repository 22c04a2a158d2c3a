import { fromText, toText } from "./text.ts";
import type { Tx } from "./tx.ts";

const FIND = `
  SELECT name, value FROM dibs.document WHERE kind = $1 AND ($2::text IS NULL OR name = $2) ORDER BY name`;
const PUT = `
  INSERT INTO dibs.document (kind, name, value) VALUES ($1, $2, $3)
  ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value`;
const DELETE = `DELETE FROM dibs.document WHERE kind = $1 AND name = $2`;

interface Document {
  name: string;
  value: string;
}

export async function put(
  tx: Tx,
  kind: string,
  name: string,
  value: string | null,
): Promise<{ before: string | null }> {
  const [known] = await documents(tx, kind, name);
  const before = known?.value ?? null;
  if (value === null) await tx.run(DELETE, kind, name);
  else if (value !== before) await tx.run(PUT, kind, name, toText(value));
  return { before };
}

export async function documents(tx: Tx, kind: string, name: string | undefined): Promise<Document[]> {
  const rows = await tx.all<Document>(FIND, kind, name ?? null);
  return rows.map((row) => ({ name: row.name, value: fromText(row.value) }));
}
