import { lostError, timeoutError } from "../../../core/errors/attempt-errors.ts";
import { joinsGroupWhenDue } from "../../../core/task/transition.ts";
import { isEnd } from "../../../core/task/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import { followEnds } from "./follow-ends.ts";
import { type ClaimRow, heldFrom } from "./held.ts";
import { fillLane } from "../limits/move-lanes.ts";
import { end, enter, fail, type Held, type TransitionTask } from "./line.ts";
import { findBySeq, takeOut } from "./find-task.ts";
import { endRetryElsewhere, releaseSticky } from "./enter-line.ts";
import { notify } from "./notices.ts";
import { openGates } from "../limits/review.ts";
import { keepStep } from "../flows/steps.ts";
import { COUNTED, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The sweep: expires leases, manual claims and tasks, and promotes what is due, a bounded number per call. Claims and
 * `housekeep` call it.
 */

/** The earliest due time of each kind. `hand` and `session` are in awake time, the others in calendar time. */
export interface NextDue {
  session: number | null;
  hand: number | null;
  due: number | null;
  elsewhere: number | null;
  ttl: number | null;
  /** Of lanes and gates. */
  wake: number | null;
}

// Each is read from the first entry of an index, except for sessions: they are few, and their rows change with every
// heartbeat.
const NEXT_DUE = `
  SELECT
    (SELECT min(heartbeat_at + lease) FROM session) AS session,
    (SELECT min(deadline) FROM claim WHERE session IS NULL) AS hand,
    (SELECT min(due) FROM scheduled) AS due,
    (SELECT min(until) FROM ready_elsewhere) AS elsewhere,
    (SELECT min(expires_at) FROM ttl) AS ttl`;
const WAKE = `
  SELECT
    (SELECT min(at) FROM wake) AS lane,
    (SELECT min(wake_at) FROM gate) AS gate`;

export function nextDue(tx: Tx): NextDue {
  const first = tx.get<NextDue>(NEXT_DUE)!;
  first.wake = tx.queues.traits.hasLimits ? firstWake(tx) : null;
  return first;
}

function firstWake(tx: Tx): number | null {
  const { lane, gate } = tx.get<{ lane: number | null; gate: number | null }>(WAKE)!;
  return lane === null || gate === null ? (lane ?? gate) : Math.min(lane, gate);
}

export function sweepIsDue(tx: Tx): boolean {
  if (tx.batch.isSwept) return false;
  if (!isAhead(tx, nextDue(tx))) return true;
  tx.batch.noteSwept();
  return false;
}

function isAhead(tx: Tx, { session, hand, due, elsewhere, ttl, wake }: NextDue): boolean {
  const { now, awake } = tx;
  return (
    (session === null || session > awake) &&
    (hand === null || hand > awake) &&
    (due === null || due > now) &&
    (elsewhere === null || elsewhere > now) &&
    (ttl === null || ttl > now) &&
    (wake === null || wake > now)
  );
}

/** Processes a bounded number of due rows of each kind. */
export function sweep(tx: Tx): void {
  if (!sweepIsDue(tx)) return;
  expireSilentSessions(tx);
  expireManualClaims(tx);
  promoteDue(tx);
  endDueElsewhere(tx);
  if (tx.queues.traits.hasLimits) {
    fillDueLanes(tx);
    openGates(tx);
  }
  expire(tx);
}

interface SilentSession {
  id: number;
  worker: string;
  heartbeat_at: number;
}

const SILENT = `SELECT id, worker, heartbeat_at FROM session WHERE heartbeat_at + lease <= ? ORDER BY id`;
// Scans all claims, which are few. An index by session would cost every claim.
const LOST = `SELECT * FROM claim WHERE session = ? AND lease <= ? ORDER BY task LIMIT 0 + ?`;
const HOLDS = `SELECT 1 FROM claim WHERE session = ? LIMIT 1`;
/** Expires the claims of sessions without heartbeats, and deletes a session that has no claims. */
function expireSilentSessions(tx: Tx): void {
  for (const session of tx.all<SilentSession>(SILENT, tx.awake)) {
    const lost = tx.all<ClaimRow>(LOST, session.id, tx.awake - session.heartbeat_at, BOUNDS.sweep);
    for (const row of lost) expireClaim(tx, heldFrom(tx, row));
    if (tx.get(HOLDS, session.id)) continue;
    disownAll(tx, session.id, forgetSession(tx, session.id));
    tx.announce({ type: "worker.lost", at: tx.now, worker: session.worker });
  }
}

const DELETE_SESSION = `DELETE FROM session WHERE id = ?`;
const DELETE_SERVING = `DELETE FROM serving WHERE queue = ? AND session = ?`;
const DELETE_NOTICES = `DELETE FROM notice WHERE session = ?`;
const INFO = `SELECT info FROM session WHERE id = ?`;

/** Returns the queues that its worker served. */
export function forgetSession(tx: Tx, id: number): string[] {
  const queues = stopServing(tx, id);
  tx.run(DELETE_SESSION, id);
  tx.run(DELETE_NOTICES, id);
  return queues;
}

/** The worker claims nothing more. Returns the queues that it served. */
export function stopServing(tx: Tx, id: number): string[] {
  const { queues } = JSON.parse(tx.get<{ info: string }>(INFO, id)!.info) as { queues: string[] };
  for (const queue of queues) tx.run(DELETE_SERVING, queue, id);
  tx.batch.workers.clear();
  return queues;
}

/** The worker is gone: any worker may claim the tasks that stuck to it. */
export function disownAll(tx: Tx, session: number, queues: readonly string[]): void {
  for (const name of new Set(queues)) {
    const queue = tx.queues.named(name);
    if (queue?.lanes === COUNTED) releaseSticky(tx, queue, session);
  }
}

export function expireClaim(tx: Tx, task: Held): void {
  notify(tx, "lost", task);
  fail(tx, task, "lost", lostError(task.worker), 0);
  followEnds(tx);
}

const EXPIRED_MANUAL = `
  SELECT * FROM claim WHERE session IS NULL AND deadline <= ? ORDER BY deadline, task LIMIT 0 + ?`;

function expireManualClaims(tx: Tx): void {
  const expired = tx.all<ClaimRow>(EXPIRED_MANUAL, tx.awake, BOUNDS.sweep);
  for (const row of expired) expireClaim(tx, heldFrom(tx, row));
}

const OVERDUE = `SELECT * FROM claim WHERE session = ? AND deadline <= ? ORDER BY task`;
const NEXT_OVERDUE = `SELECT min(deadline) AS deadline FROM claim WHERE session = ?`;

/**
 * Ends claims past their timeout. Only the session's own heartbeat does this: a live worker gets a notice, a dead one
 * loses all its claims. `next`: the next timeout.
 */
export function endOverdue(tx: Tx, session: number): { ended: Held[]; next: number | null } {
  const ended = tx.all<ClaimRow>(OVERDUE, session, tx.awake).map((row) => heldFrom(tx, row));
  for (const task of ended) fail(tx, task, "timeout", timeoutError(), 0);
  return { ended, next: tx.get<{ deadline: number | null }>(NEXT_OVERDUE, session)!.deadline };
}

interface DueRow {
  queue: number;
  pos: number;
  task: number;
  failures: number;
  blocks_group: number;
  priority: number;
  group_key: string | null;
  created_at: number;
  signal: string | null;
}

const DUE = `
  SELECT scheduled.queue, scheduled.pos, task, failures, blocks_group, signal, priority, group_key, created_at
  FROM scheduled CROSS JOIN task ON task.seq = scheduled.task
  WHERE due <= ? ORDER BY due, task LIMIT 0 + ?`;
const DELETE_SCHEDULED = `DELETE FROM scheduled WHERE queue = ? AND pos = ?`;
const MOVE = `UPDATE task SET pos = ? WHERE seq = ?`;

function promoteDue(tx: Tx): void {
  for (const row of tx.all<DueRow>(DUE, tx.now, BOUNDS.sweep)) {
    const queue = tx.queues.of(row.queue);
    tx.run(DELETE_SCHEDULED, row.queue, row.pos);
    tx.counters.count(queue, row.signal === null ? "scheduled" : "parked", -1);
    if (row.signal !== null) keepStep(tx, row.task, "timeout", row.signal, null);
    promote(tx, promoted(queue, row), row.signal);
  }
}

/** A task that was taken out of the schedule enters the line, or its group. `signal`: it was parked. */
export function promote(tx: Tx, task: TransitionTask, signal: string | null = null): "ready" | "waiting" {
  if (joinsGroupWhenDue({ ...task, signal })) {
    task.pos = ++tx.seq;
    tx.run(MOVE, task.pos, task.seq);
  }
  return enter(tx, task);
}

/** It stays pending, so its key and its time-to-live do not change. */
function promoted(queue: Queue, row: DueRow): TransitionTask {
  return {
    seq: row.task,
    queue,
    createdAt: row.created_at,
    rank: 0 - row.priority,
    pos: row.pos,
    groupKey: row.group_key,
    blocksGroup: row.blocks_group === 1,
    expiresAt: null,
    maxAttempts: null,
    keyed: false,
    failures: row.failures,
  };
}

interface ElsewhereRow {
  queue: number;
  rank: number;
  pos: number;
}

const DUE_ELSEWHERE = `
  SELECT queue, rank, pos FROM ready_elsewhere WHERE until <= ? ORDER BY until, task LIMIT 0 + ?`;

function endDueElsewhere(tx: Tx): void {
  for (const row of tx.all<ElsewhereRow>(DUE_ELSEWHERE, tx.now, BOUNDS.sweep)) {
    endRetryElsewhere(tx, tx.queues.of(row.queue), row.rank, row.pos);
  }
}

const DUE_LANES = `
  SELECT wake.queue, group_key FROM wake CROSS JOIN queue ON queue.id = wake.queue
  WHERE at <= ? ORDER BY at, queue.name, group_key LIMIT 0 + ?`;

/** Groups of which more tasks may start now. */
function fillDueLanes(tx: Tx): void {
  const due = tx.all<{ queue: number; group_key: string }>(DUE_LANES, tx.now, BOUNDS.sweep);
  for (const { queue, group_key: key } of due) fillLane(tx, tx.queues.of(queue), key);
}

const OUTLIVED = `SELECT task FROM ttl WHERE expires_at <= ? ORDER BY expires_at, task LIMIT 0 + ?`;

function expire(tx: Tx): void {
  for (const row of tx.all<{ task: number }>(OUTLIVED, tx.now, BOUNDS.sweep)) {
    const task = findBySeq(tx, row.task)!;
    // The tasks of a run end together: one that expires cancels the others.
    if (isEnd(task.place.state)) continue;
    takeOut(tx, task);
    end(tx, task, "expired");
    followEnds(tx);
  }
}
