import { claimLost } from "../../../core/errors/errors.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Held, TransitionTask } from "./line.ts";
import { lookUp, TASK_OF } from "../statements/look-up.ts";
import { RANK } from "../statements/rank.ts";
import type { Tx } from "../transaction/tx.ts";

/** Rows of tasks with what a transition needs, and tasks that are found and locked: claimed, or waiting for a verdict. */

/** What a transition needs of the row in `task`. */
export interface TaskRow {
  created_at: number;
  rank: number;
  pos: number;
  group_key: string | null;
  expires_at: number | null;
  max_attempts: number | null;
  cost: number | null;
  idempotency_key: string | null;
}

export const TASK_COLUMNS = `task.created_at, ${RANK} AS rank, coalesce(task.pos, task.seq) AS pos, task.group_key,
    task.expires_at, task.max_attempts, task.cost, task.idempotency_key`;

/** The columns that a transition needs, of a task in the line or claimed. */
export interface HeadRow extends TaskRow {
  task: number;
  failures: number;
  special: boolean;
}

/** A claim's row, locked, with the columns of its task that a transition needs. */
export interface ClaimRow extends HeadRow {
  queue: number;
  fence: number;
  started_at: number;
  cancelled: boolean;
  session: number | null;
  worker: string;
}

/** The columns of `task` that TASK_COLUMNS reads. */
export const OF_TASK = `seq, created_at, urgent, priority, pos, group_key, expires_at, max_attempts, cost, idempotency_key`;

/** Statement that reads claims with their tasks. `lock` says whether it fails because of locked rows or skips them. */
export function selectClaims(
  where: string,
  lock: "FOR UPDATE OF claim NOWAIT" | "FOR UPDATE OF claim SKIP LOCKED",
): string {
  return `
  SELECT claim.task, claim.queue, claim.failures, claim.fence, claim.started_at, claim.cancelled, claim.session,
    claim.worker, claim.special, ${TASK_COLUMNS}
  FROM dibs.claim CROSS JOIN ${TASK_OF("claim", OF_TASK)}
  WHERE ${where} ${lock}`;
}

export function transitionTaskFrom(
  queue: Queue,
  row: Omit<HeadRow, "special"> & { special?: boolean | undefined },
): TransitionTask {
  return {
    seq: row.task,
    queue,
    createdAt: row.created_at,
    rank: row.rank,
    pos: row.pos,
    groupKey: row.group_key,
    blocksGroup: row.group_key !== null,
    expiresAt: row.expires_at,
    maxAttempts: row.max_attempts,
    cost: row.cost,
    key: row.idempotency_key,
    failures: row.failures,
    ...(row.special !== undefined && { stepped: row.special }),
  };
}

export function heldFrom(tx: Tx, row: ClaimRow): Held {
  const { fence, worker, session, started_at: startedAt, cancelled } = row;
  return {
    ...transitionTaskFrom(tx.queues.of(row.queue), row),
    fence,
    worker,
    session,
    startedAt,
    cancelled,
  };
}

// A fence is given out once, so it alone identifies the claim. The lock keeps the claim until the commit.
const HELD = selectClaims(`claim.task = $1 AND claim.fence = $2`, "FOR UPDATE OF claim SKIP LOCKED");

/** The claim, locked, if the fence is valid. Everything that a holder does is checked here. */
export async function heldTask(tx: Tx, id: string, fence: number): Promise<Held> {
  const place = tx.place(id);
  if (!place || !Number.isSafeInteger(fence)) throw claimLost(id, fence);
  const row = await tx.lockOne<ClaimRow>(HELD, place.seq, fence);
  if (!row) throw claimLost(id, fence);
  return heldFrom(tx, row);
}

interface VerifyingRow extends Omit<HeadRow, "special"> {
  queue: number;
  fence: number;
  started_at: number;
  worker: string;
  adds: string | null;
  each: boolean;
  next: string | null;
  result: string | null;
  result_bytes: Uint8Array | null;
  /** It stepped aside: its group continues meanwhile. */
  stepped_aside: boolean;
}

/** A task whose result waits for a verdict; locked until the commit. */
export type VerifyingTask = Held & {
  pending: Pick<VerifyingRow, "adds" | "each" | "next" | "result" | "result_bytes">;
};

// All transactions lock these rows in the same order.
const ASKED_BY = `
  SELECT verifying.task, verifying.fence, verifying.started_at, verifying.failures, verifying.worker, verifying.adds,
    verifying."each", verifying.next, verifying.result, verifying.result_bytes, verifying.queue, ${TASK_COLUMNS},
    EXISTS (SELECT 1 FROM dibs.stepped_aside WHERE stepped_aside.task = verifying.task OFFSET 0) AS stepped_aside
  FROM (
    SELECT verifying.task FROM unnest($1::int8[]) AS asking (task)
    CROSS JOIN ${lookUp("verifying", "verifying.asked = asking.task")} ORDER BY verifying.task) AS judged
  CROSS JOIN ${lookUp("verifying", { task: "judged.task" }, { lock: "FOR UPDATE NOWAIT" })}
  CROSS JOIN ${TASK_OF("verifying")}`;

/**
 * The tasks about which these tasks ask for a verdict, read from the store's own rows. The payloads of the asking tasks
 * name them too, but any client could have written such a payload.
 */
export async function findAsked(tx: Tx, seqs: readonly number[]): Promise<VerifyingTask[]> {
  const rows = await tx.lock<VerifyingRow>(ASKED_BY, [[...seqs]]);
  await tx.queues.load(rows.map(({ queue }) => queue));
  return rows.map((row) => {
    const task = transitionTaskFrom(tx.queues.of(row.queue), row);
    return { ...verifyingFrom(task, row), pending: row };
  });
}

export function verifyingFrom(
  task: TransitionTask,
  row: Pick<VerifyingRow, "fence" | "worker" | "started_at" | "stepped_aside">,
): Held {
  const { fence, worker, started_at: startedAt } = row;
  const blocksGroup = task.blocksGroup && !row.stepped_aside;
  return {
    ...task,
    ...{ blocksGroup, fence, worker, startedAt, session: null, cancelled: false, isVerifying: true },
  };
}
