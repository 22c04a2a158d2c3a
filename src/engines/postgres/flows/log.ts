import type { StoredLine } from "../../../core/handler/attempt-log.ts";
import { LIMITS } from "../../../core/input/limits.ts";
import { fromText, toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** The log of a task: core/handler/attempt-log.ts. */

export const DELETE_LOGS = `DELETE FROM dibs.log WHERE task = ANY ($1::int8[])`;

const APPEND = `
  INSERT INTO dibs.log (task, n, fence, at, text)
  SELECT $1, coalesce(max(n), 0) + 1, $2, $3, $4 FROM dibs.log WHERE task = $1`;
const DELETE_OLDEST = `
  DELETE FROM dibs.log
  WHERE task = $1 AND n <= (SELECT max(n) FROM dibs.log WHERE task = $1) - ${LIMITS.logLines}`;

/** The caller has locked the claim, so that no other transaction takes the same number. */
export function appendLine(tx: Tx, seq: number, { fence, at, text }: StoredLine): void {
  tx.send(APPEND, seq, fence, at, toText(text));
  tx.send(DELETE_OLDEST, seq);
}

const LINES = `SELECT fence, at, text FROM dibs.log WHERE task = $1 ORDER BY n`;

export async function logOf(tx: Tx, seq: number): Promise<StoredLine[]> {
  const lines = await tx.all<StoredLine>(LINES, seq);
  return lines.map(({ fence, at, text }) => ({ fence, at, text: fromText(text) }));
}
