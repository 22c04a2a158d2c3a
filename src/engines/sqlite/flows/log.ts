import type { StoredLine } from "../../../core/handler/attempt-log.ts";
import { LIMITS } from "../../../core/input/limits.ts";
import type { Tx } from "../transaction/tx.ts";

/** The log of a task: core/handler/attempt-log.ts. */

export const DELETE_LOG = `DELETE FROM log WHERE task = ?`;

const APPEND = `
  INSERT INTO log (task, n, fence, at, text)
  SELECT ?, coalesce(max(n), 0) + 1, ?, ?, ? FROM log WHERE task = ?`;
const DELETE_OLDEST = `
  DELETE FROM log WHERE task = ? AND n <= (SELECT max(n) FROM log WHERE task = ?) - ${LIMITS.logLines}`;

export function appendLine(tx: Tx, seq: number, { fence, at, text }: StoredLine): void {
  tx.run(APPEND, seq, fence, at, text, seq);
  tx.run(DELETE_OLDEST, seq, seq);
}

const LINES = `SELECT fence, at, text FROM log WHERE task = ? ORDER BY n`;

export function logOf(tx: Tx, seq: number): StoredLine[] {
  return tx.all<StoredLine>(LINES, seq);
}
