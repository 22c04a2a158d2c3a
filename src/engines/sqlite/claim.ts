import { DibsError } from "../../core/errors.ts";
import type { QueuePolicy } from "../../core/policy.ts";
import { type Body, type ClaimedTask, type Headers, JSON_TYPE } from "../../core/task.ts";
import { BOUNDS, type ClaimOutcome, type ClaimRequest } from "../../engine/engine.ts";
import { bodyFrom } from "./body.ts";
import { announceTask, end, isOutlived, type Mover, unwatchTtl } from "./line.ts";
import { sweep, sweepIsDue } from "./sweep.ts";
import type { Queue, Tx } from "./tx.ts";

export function claim(tx: Tx, request: ClaimRequest): ClaimOutcome {
  const session = request.session === undefined ? null : liveSession(tx, request.session);
  sweep(tx);
  const outcome: ClaimOutcome = { tasks: [], policies: {}, passed: false, more: false };
  if (request.share !== undefined) {
    for (const name of request.queues) take(tx, request, session, name, request.share, outcome);
  }
  for (const name of request.queues) take(tx, request, session, name, request.max, outcome);
  if (session) signOfLife(tx, session, request, outcome);
  return outcome;
}

const READY_EXISTS = `SELECT 1 FROM ready WHERE queue = ? LIMIT 1`;

/** The answer, where there is nothing to do: it takes no lock. Undefined where there is. */
export function claimNothing(tx: Tx, request: ClaimRequest): ClaimOutcome | undefined {
  if (request.session !== undefined) liveSession(tx, request.session);
  if (sweepIsDue(tx)) return undefined;
  let passed = false;
  for (const name of request.queues) {
    const queue = tx.queueNamed(name);
    if (request.max <= 0 || !queue || queue.paused) continue;
    if (tx.get(READY_EXISTS, queue.id)) return undefined;
    const kept = lookAtKept(tx, queue, request.worker);
    if (kept.allowed.length > 0) return undefined;
    passed ||= kept.passed;
  }
  return { tasks: [], policies: {}, passed, more: false };
}

interface SessionRow {
  id: number;
  lease: number;
  beat_at: number;
  mixed: number;
  overdue_at: number | null;
}

const SESSION = `SELECT id, lease, beat_at, mixed, overdue_at FROM session WHERE id = ?`;

/** One past its lease is refused even before a sweep has found it: its new claims would hang on nothing. */
function liveSession(tx: Tx, id: number): SessionRow {
  const session = tx.get<SessionRow>(SESSION, id);
  if (!session || session.beat_at + session.lease <= tx.awake) throw sessionGone(id);
  return session;
}

export function sessionGone(session: number): DibsError {
  return new DibsError(
    "CLAIM_LOST",
    `Session ${session} has ended: it gave no sign of life for a whole lease, and what it held went to others. Join again.`,
  );
}

const SIGN_OF_LIFE = `UPDATE session SET beat_at = ?, mixed = ?, overdue_at = ? WHERE id = ?`;

/** A queue's lease may be shorter than the time since the last beat, and counts from here. */
function signOfLife(tx: Tx, session: SessionRow, request: ClaimRequest, outcome: ClaimOutcome): void {
  if (outcome.tasks.length === 0) return;
  let { mixed, overdue_at: overdueAt } = session;
  for (const policy of Object.values(outcome.policies)) {
    if (leaseOf(request, session, policy) !== session.lease) mixed = 1;
    overdueAt = Math.min(overdueAt ?? Number.POSITIVE_INFINITY, tx.awake + policy.timeout);
  }
  const same = session.beat_at === tx.awake && session.mixed === mixed && session.overdue_at === overdueAt;
  if (same) return;
  tx.run(SIGN_OF_LIFE, tx.awake, mixed, overdueAt, session.id);
  tx.serving.clear();
}

interface LineRow {
  rank: number;
  pos: number;
  task: number;
  failures: number;
  created_at: number;
  group_key: string | null;
  expires_at: number | null;
  max_attempts: number | null;
  idempotency_key: string | null;
  content_type: string | null;
  headers: string | null;
  data: Body;
}

interface KeptRow {
  rank: number;
  pos: number;
  task: number;
  failures: number;
  avoid: string;
}

const FIELDS = `
  task.created_at, task.group_key, task.expires_at, task.max_attempts, task.idempotency_key,
  task.content_type, task.headers, task.data`;
// CROSS JOIN fixes the order: the line first, then its tasks by number.
const HEAD_OF_LINE = `
  SELECT rank, ready.pos, task, failures, ${FIELDS}
  FROM ready CROSS JOIN task ON task.seq = ready.task
  WHERE ready.queue = ? ORDER BY rank, ready.pos LIMIT ?`;
const DELETE_HEAD = `DELETE FROM ready WHERE queue = ? AND (rank, pos) <= (?, ?)`;
const KEPT = `SELECT rank, pos, task, failures, avoid FROM kept WHERE queue = ? ORDER BY rank, pos LIMIT ?`;
const KEPT_TASK = `SELECT ${FIELDS} FROM task WHERE seq = ?`;
const DELETE_KEPT = `DELETE FROM kept WHERE queue = ? AND rank = ? AND pos = ?`;

/** Up to `count` tasks from one queue, in its order. */
function take(
  tx: Tx,
  request: ClaimRequest,
  session: SessionRow | null,
  name: string,
  count: number,
  outcome: ClaimOutcome,
): void {
  const room = Math.min(count, request.max - outcome.tasks.length);
  const queue = tx.queueNamed(name);
  if (room <= 0 || !queue || queue.paused) return;
  const kept = lookAtKept(tx, queue, request.worker);
  outcome.passed ||= kept.passed;
  const ready = tx.all<LineRow>(HEAD_OF_LINE, queue.id, room);
  const allowed = kept.allowed.map((row) => ({ ...row, ...tx.get<LineRow>(KEPT_TASK, row.task)! }));
  const taken = allowed.length === 0 ? ready : [...ready, ...allowed].sort(inLine).slice(0, room);
  if (taken.length === 0) return;

  // What was taken of the ready ones is the head of their line.
  const last = allowed.length === 0 ? ready.at(-1) : ready.findLast((row) => taken.includes(row));
  if (last) tx.run(DELETE_HEAD, queue.id, last.rank, last.pos);
  for (const row of allowed) if (taken.includes(row)) tx.run(DELETE_KEPT, queue.id, row.rank, row.pos);
  tx.count(queue, "ready", -taken.length);

  for (const row of taken) {
    unwatchTtl(tx, row.task, row.expires_at);
    const task = moverFrom(queue, row);
    if (isOutlived(tx, row.expires_at)) {
      end(tx, task, "expired");
      outcome.more = true;
    } else {
      outcome.tasks.push(hold(tx, request, session, task, row));
      outcome.policies[name] = queue.policy;
    }
  }
}

/** The first of the retried tasks: those this worker may have, and whether there are some it may not. */
function lookAtKept(tx: Tx, queue: Queue, worker: string): { allowed: KeptRow[]; passed: boolean } {
  const kept = tx.all<KeptRow>(KEPT, queue.id, BOUNDS.retryLook);
  const allowed = kept.filter((row) => !(JSON.parse(row.avoid) as string[]).includes(worker));
  return { allowed, passed: allowed.length < kept.length };
}

function inLine(a: LineRow, b: LineRow): number {
  return a.rank - b.rank || a.pos - b.pos;
}

function moverFrom(queue: Queue, row: LineRow): Mover {
  return {
    seq: row.task,
    queue,
    createdAt: row.created_at,
    rank: row.rank,
    pos: row.pos,
    groupKey: row.group_key,
    holdsGroup: row.group_key !== null,
    expiresAt: row.expires_at,
    maxAttempts: row.max_attempts,
    keyed: row.idempotency_key !== null,
    failures: row.failures,
  };
}

/** A session beats in the rhythm of its own lease: a shorter one would be lost between two signs of life. */
function leaseOf(request: ClaimRequest, session: SessionRow | null, policy: QueuePolicy): number {
  const named = request.lease ?? policy.lease;
  return session === null ? named : Math.max(named, session.lease);
}

const INSERT_CLAIM = `
  INSERT INTO claim (task, queue, rank, pos, failures, created_at, fence, started_at, lease, deadline,
    keyed, cancelled, session, group_key, expires_at, max_attempts, worker)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?)`;

function hold(
  tx: Tx,
  request: ClaimRequest,
  session: SessionRow | null,
  task: Mover,
  row: LineRow,
): ClaimedTask {
  const { queue } = task;
  const { policy } = queue;
  const fence = ++tx.fence;
  const lease = leaseOf(request, session, policy);
  const deadline = tx.awake + (session === null ? lease : policy.timeout);
  if (session === null && deadline <= tx.awake) tx.swept = false;
  tx.run(
    INSERT_CLAIM,
    task.seq,
    queue.id,
    task.rank,
    task.pos,
    task.failures,
    task.createdAt,
    fence,
    tx.now,
    lease,
    deadline,
    task.keyed ? 1 : 0,
    session === null ? null : session.id,
    task.groupKey,
    task.expiresAt,
    task.maxAttempts,
    request.worker,
  );
  tx.count(queue, "claimed", 1);
  const flow = tx.flow(queue);
  flow.claimed++;
  flow.waitMs += tx.now - task.createdAt;
  const attempt = task.failures + 1;
  announceTask(tx, "task.claimed", task, { worker: request.worker, attempt });
  return {
    id: tx.id(task.createdAt, task.seq),
    fence,
    queue: queue.name,
    data: bodyFrom(row.data),
    contentType: row.content_type ?? JSON_TYPE,
    headers: row.headers === null ? {} : (JSON.parse(row.headers) as Headers),
    attempt,
    maxAttempts: task.maxAttempts ?? policy.maxAttempts,
    priority: 0 - task.rank,
    groupKey: task.groupKey,
    createdAt: task.createdAt,
  };
}
