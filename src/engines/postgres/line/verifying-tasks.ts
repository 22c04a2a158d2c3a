import type { Held } from "./line.ts";
import { lookUp, TASK_OF } from "../statements/look-up.ts";
import { RANK } from "../statements/rank.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Finds and locks results that wait for a verdict. flows/verify.ts and the end of a verifier's task (line.ts) call it.
 */

interface JudgedRow {
  task: number;
  fence: number;
  started_at: number;
  failures: number;
  worker: string;
  adds: string | null;
  each: boolean;
  next: string | null;
  result: string | null;
  result_bytes: Uint8Array | null;
  queue: number;
  created_at: number;
  rank: number;
  pos: number;
  group_key: string | null;
  expires_at: number | null;
  max_attempts: number | null;
  cost: number | null;
  idempotency_key: string | null;
  /** It stepped aside: its group continues meanwhile. */
  stepped_aside: boolean;
}

/** A task whose result waits for a verdict; locked until the commit. */
export type VerifyingTask = Held & {
  pending: Pick<JudgedRow, "adds" | "each" | "next" | "result" | "result_bytes">;
};

const SELECT = (verifying: string): string => `
  SELECT verifying.task, verifying.fence, verifying.started_at, verifying.failures, verifying.worker, verifying.adds,
    verifying."each", verifying.next, verifying.result, verifying.result_bytes, verifying.queue, task.created_at, ${RANK} AS rank,
    coalesce(task.pos, task.seq) AS pos, task.group_key, task.expires_at, task.max_attempts, task.cost,
    task.idempotency_key, EXISTS (SELECT 1 FROM dibs.stepped_aside WHERE stepped_aside.task = verifying.task OFFSET 0) AS stepped_aside
  FROM ${verifying} CROSS JOIN ${TASK_OF("verifying")}`;
// All transactions lock these rows in the same order.
const ASKED_BY = SELECT(`(
    SELECT verifying.task FROM unnest($1::int8[]) AS asking (task)
    CROSS JOIN ${lookUp("verifying", "verifying.asked = asking.task")} ORDER BY verifying.task) AS judged
  CROSS JOIN ${lookUp("verifying", { task: "judged.task" }, { lock: "FOR UPDATE NOWAIT" })}`);

/**
 * The tasks about which these tasks ask for a verdict, read from the store's own rows. The payloads of the asking tasks
 * name them too, but any client could have written such a payload.
 */
export async function findAsked(tx: Tx, seqs: readonly number[]): Promise<VerifyingTask[]> {
  const rows = await tx.lock<JudgedRow>(ASKED_BY, [[...seqs]]);
  await tx.queues.load(rows.map(({ queue }) => queue));
  return rows.map((row) => judgedFrom(tx, row));
}

function judgedFrom(tx: Tx, row: JudgedRow): VerifyingTask {
  return {
    seq: row.task,
    queue: tx.queues.of(row.queue),
    createdAt: row.created_at,
    rank: row.rank,
    pos: row.pos,
    groupKey: row.group_key,
    blocksGroup: row.group_key !== null && !row.stepped_aside,
    expiresAt: row.expires_at,
    maxAttempts: row.max_attempts,
    cost: row.cost,
    key: row.idempotency_key,
    failures: row.failures,
    fence: row.fence,
    worker: row.worker,
    session: null,
    startedAt: row.started_at,
    cancelled: false,
    isVerifying: true,
    pending: row,
  };
}
