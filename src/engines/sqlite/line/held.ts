import { claimLost } from "../../../core/errors/errors.ts";
import type { Body } from "../../../core/task/task.ts";
import type { Held, TransitionTask } from "./line.ts";
import { CHILD, OF_RUN, STEPPED } from "../statements/special.ts";
import type { Tx } from "../transaction/tx.ts";

/** Tasks that are claimed, or whose result waits for a verdict. */

const TASK = `
  SELECT queue, created_at, priority, pos, group_key, expires_at, max_attempts, idempotency_key
  FROM task WHERE seq = ?`;

interface TaskRow {
  queue: number;
  created_at: number;
  priority: number;
  pos: number | null;
  group_key: string | null;
  expires_at: number | null;
  max_attempts: number | null;
  idempotency_key: string | null;
}

/** A task without its location. */
export interface Known extends TransitionTask {
  key: string | null;
}

/** Without the columns of its state: whether it blocks its group, and how often it failed. */
export function taskBySeq(tx: Tx, seq: number): Known | undefined {
  const row = tx.get<TaskRow>(TASK, seq);
  return (
    row && {
      seq,
      queue: tx.queues.of(row.queue),
      createdAt: row.created_at,
      rank: 0 - row.priority,
      pos: row.pos ?? seq,
      groupKey: row.group_key,
      blocksGroup: false,
      expiresAt: row.expires_at,
      maxAttempts: row.max_attempts,
      keyed: row.idempotency_key !== null,
      key: row.idempotency_key,
      failures: 0,
    }
  );
}

const CLAIM = `SELECT * FROM claim WHERE task = ?`;

export interface ClaimRow {
  task: number;
  queue: number;
  failures: number;
  special: number;
  fence: number;
  started_at: number;
  lease: number;
  deadline: number;
  cancelled: number;
  session: number | null;
  progress: number | null;
  note: string | null;
  worker: string;
}

export function findHeld(tx: Tx, seq: number): Held | undefined {
  const row = tx.get<ClaimRow>(CLAIM, seq);
  return row && heldFrom(tx, row);
}

const VERIFYING = `SELECT * FROM verifying WHERE task = ?`;

export interface VerifyingRow {
  task: number;
  queue: number;
  failures: number;
  special: number;
  fence: number;
  started_at: number;
  worker: string;
  adds: string | null;
  each: number;
  next: string | null;
  result: Body | null;
  blocks_group: number;
  asked: number;
}

/** A task whose result waits for a verdict. */
export type VerifyingTask = Held & { row: VerifyingRow };

/** With the result that waits for a verdict, and the adds of its ack. */
export function findVerifying(tx: Tx, seq: number): VerifyingTask | undefined {
  const row = tx.get<VerifyingRow>(VERIFYING, seq);
  return row && judgedFrom(tx, row);
}

const ASKED = `SELECT * FROM verifying WHERE asked = ?`;

/**
 * The task about which this one asks for a verdict, from the store's own rows. Payloads are not used: anybody could
 * have written them.
 */
export function findAsked(tx: Tx, asking: number): VerifyingTask | undefined {
  const row = tx.get<VerifyingRow>(ASKED, asking);
  return row && judgedFrom(tx, row);
}

function judgedFrom(tx: Tx, row: VerifyingRow): VerifyingTask {
  const held = heldFrom(tx, { ...row, session: null, cancelled: 0 });
  return { ...held, blocksGroup: held.blocksGroup && row.blocks_group === 1, isVerifying: true, row };
}

type Claimed = Omit<ClaimRow, "lease" | "deadline" | "progress" | "note">;

export function heldFrom(tx: Tx, row: Claimed): Held {
  const task = taskBySeq(tx, row.task)!;
  return {
    ...task,
    blocksGroup: task.groupKey !== null,
    failures: row.failures,
    fence: row.fence,
    worker: row.worker,
    session: row.session,
    startedAt: row.started_at,
    cancelled: row.cancelled === 1,
    stepped: (row.special & STEPPED) !== 0,
    ofRun: (row.special & OF_RUN) !== 0,
    isChild: (row.special & CHILD) !== 0,
  };
}

// A fence is given out once, so it alone identifies the claim.
const HELD = `SELECT * FROM claim WHERE task = ? AND fence = ?`;

/** The claim, if the fence is valid. Everything that a holder does is checked here. */
export function heldTask(tx: Tx, id: string, fence: number): Held {
  const place = tx.place(id);
  const row = place && tx.get<ClaimRow>(HELD, place.seq, fence);
  if (!row) throw claimLost(id, fence);
  return heldFrom(tx, row);
}
