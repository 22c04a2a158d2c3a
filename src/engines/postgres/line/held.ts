import { claimLost } from "../../../core/errors/errors.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Held, TransitionTask } from "./line.ts";
import { TASK_OF } from "../statements/look-up.ts";
import { RANK } from "../statements/rank.ts";
import type { Tx } from "../transaction/tx.ts";

/** Columns that a transition needs, of a task in the line or claimed. */
export interface HeadRow {
  task: number;
  failures: number;
  created_at: number;
  rank: number;
  pos: number;
  group_key: string | null;
  expires_at: number | null;
  max_attempts: number | null;
  cost: number | null;
  idempotency_key: string | null;
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

const OF_TASK = `seq, created_at, urgent, priority, pos, group_key, expires_at, max_attempts, cost, idempotency_key`;

/** Statement that reads claims with their tasks. `lock` says whether it fails because of locked rows or skips them. */
export function selectClaims(
  where: string,
  lock: "FOR UPDATE OF claim NOWAIT" | "FOR UPDATE OF claim SKIP LOCKED",
): string {
  return `
  SELECT claim.task, claim.queue, claim.failures, claim.fence, claim.started_at, claim.cancelled, claim.session,
    claim.worker, task.created_at, ${RANK} AS rank, coalesce(task.pos, task.seq) AS pos, task.group_key,
    task.expires_at, task.max_attempts, task.cost, task.idempotency_key, claim.special
  FROM dibs.claim CROSS JOIN ${TASK_OF("claim", OF_TASK)}
  WHERE ${where} ${lock}`;
}

export function transitionTaskFrom(queue: Queue, row: HeadRow): TransitionTask {
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
    stepped: row.special,
  };
}

export function heldFrom(tx: Tx, row: ClaimRow): Held {
  return {
    ...transitionTaskFrom(tx.queues.of(row.queue), row),
    fence: row.fence,
    worker: row.worker,
    session: row.session,
    startedAt: row.started_at,
    cancelled: row.cancelled,
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
