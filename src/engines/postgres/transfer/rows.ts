import type { Connection } from "../connection/connection.ts";
import { toText } from "../statements/text.ts";

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
