import { LIMITS } from "../../../core/input/limits.ts";
import type { Body } from "../../../core/task/task.ts";
import { TASK_OF } from "../statements/look-up.ts";
import { fromColumns, numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Bounds the answer of a claim in bytes. Claim statements read payloads with their tasks. Of payloads so large that the
 * answer could become too large, they read only the size. Once it is known how many fit, the large ones are read.
 */

/** The largest payload that a claim of so many tasks reads at once (core/answer/answer-size.ts). */
export const AT_ONCE = (most: string): string => `${LIMITS.answerBytes} / ${most}`;

/** PostgreSQL knows a value's size without reading the value. */
export const DATA_SIZE = `coalesce(octet_length(task.data), octet_length(task.bytes))`;

/** The columns of a payload. One above `atOnce` is not read; `large` is its size. */
export const LARGE_APART = (atOnce: string): string => `
  CASE WHEN ${DATA_SIZE} <= ${atOnce} THEN task.data END AS data,
  CASE WHEN ${DATA_SIZE} <= ${atOnce} THEN task.bytes END AS bytes,
  CASE WHEN ${DATA_SIZE} > ${atOnce} THEN ${DATA_SIZE} END AS large`;

const LARGE = `
  SELECT task.seq, task.data, task.bytes FROM unnest($1::int8[]) AS wanted (task)
  CROSS JOIN ${TASK_OF("wanted", "seq, data, bytes")}`;

/** The payloads of these tasks. */
export async function readLarge(tx: Tx, seqs: readonly number[]): Promise<Map<number, Body>> {
  if (seqs.length === 0) return new Map();
  const rows = await tx.all<{ seq: number; data: string | null; bytes: Uint8Array | null }>(
    LARGE,
    numbers(seqs),
  );
  return new Map(rows.map(({ seq, data, bytes }) => [seq, fromColumns(data, bytes)!]));
}
