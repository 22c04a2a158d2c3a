import { lostError, timeoutError } from "../../../core/attempt-errors.ts";
import { joinsGroupWhenDue } from "../../../core/transition.ts";
import { isEnd } from "../../../core/task.ts";
import { BOUNDS } from "../../../engine/engine.ts";
import { type ClaimRow, heldFrom } from "./held.ts";
import { fillLane } from "../limits/move-lanes.ts";
import { end, enter, fail, type Held, type TransitionTask } from "./line.ts";
import { findBySeq, takeOut } from "./find-task.ts";
import { endRetryElsewhere, releaseSticky } from "./enter-line.ts";
import { openGates } from "../limits/review.ts";
import { keepStep } from "../flows/steps.ts";
import { COUNTED, type Queue, type Tx } from "../transaction/tx.ts";

/**
 * The sweep: expires leases, manual claims and tasks, and promotes what is due, a bounded number per call. Claims and
 * `housekeep` call it.
 */

/** The earliest of everything that time brings. Times of `hand` and `session` are awake, the others the calendar's. */
export interface NextDue {
  session: number | null;
  hand: number | null;
  due: number | null;
  elsewhere: number | null;
  ttl: number | null;
  /** Of lanes and gates. */
  wake: number | null;
}

// Each is the first entry of an index, but for the sessions: they are few, and their rows change at every beat.
const HORIZON = `
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
  const first = tx.get<NextDue>(HORIZON)!;
  first.wake = tx.traits.hasLimits ? firstWake(tx) : null;
  return first;
}

function firstWake(tx: Tx): number | null {
  const { lane, gate } = tx.get<{ lane: number | null; gate: number | null }>(WAKE)!;
  return lane === null || gate === null ? (lane ?? gate) : Math.min(lane, gate);
}

export function sweepIsDue(tx: Tx): boolean {
  return !tx.swept && !isAhead(tx, nextDue(tx));
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

/** What time brings, a bounded amount of each kind. */
export function sweep(tx: Tx): void {
  if (!sweepIsDue(tx)) {
    tx.swept = true;
    return;
  }
  expireSilentSessions(tx);
  expireManualClaims(tx);
  promoteDue(tx);
  endDueElsewhere(tx);
  if (tx.traits.hasLimits) {
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
// Scans the claims in flight, which are few beside the tasks, rather than have every claim keep an index.
const LOST = `SELECT * FROM claim WHERE session = ? AND lease <= ? ORDER BY task LIMIT 0 + ?`;
const HOLDS = `SELECT 1 FROM claim WHERE session = ? LIMIT 1`;
/** Claims of sessions that fell silent; the session itself once it holds nothing. */
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

/** Answers the queues that its worker served. */
export function forgetSession(tx: Tx, id: number): string[] {
  const queues = stopServing(tx, id);
  tx.run(DELETE_SESSION, id);
  tx.run(DELETE_NOTICES, id);
  return queues;
}

/** Its worker takes no more. Answers the queues that it served. */
export function stopServing(tx: Tx, id: number): string[] {
  const { queues } = JSON.parse(tx.get<{ info: string }>(INFO, id)!.info) as { queues: string[] };
  for (const queue of queues) tx.run(DELETE_SERVING, queue, id);
  tx.serving.clear();
  return queues;
}

/** What was kept for a worker that is gone is anybody's now. */
export function disownAll(tx: Tx, session: number, queues: readonly string[]): void {
  for (const name of new Set(queues)) {
    const queue = tx.queueNamed(name);
    if (queue?.lanes === COUNTED) releaseSticky(tx, queue, session);
  }
}

const INSERT_NOTICE = `INSERT INTO notice (session, kind, task, created_at, fence) VALUES (?, ?, ?, ?, ?)`;

/** Waits for the session's next beat. */
export function notify(tx: Tx, kind: "lost" | "cancel", task: Held): void {
  if (task.session === null) return;
  tx.noticed = true;
  tx.run(INSERT_NOTICE, task.session, kind, task.seq, task.createdAt, task.fence);
}

export function expireClaim(tx: Tx, task: Held): void {
  notify(tx, "lost", task);
  fail(tx, task, "lost", lostError(task.worker), 0);
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
 * Only its own beat ends a session's overdue claims: a live worker is asked first, a dead one loses all.
 * Answers those that ended, and when the next could be overdue.
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
    const queue = tx.queueOf(row.queue);
    tx.run(DELETE_SCHEDULED, row.queue, row.pos);
    tx.count(queue, row.signal === null ? "scheduled" : "parked", -1);
    if (row.signal !== null) keepStep(tx, row.task, "timeout", row.signal, null);
    const task = promoted(queue, row);
    if (joinsGroupWhenDue({ ...task, signal: row.signal })) {
      task.pos = ++tx.seq;
      tx.run(MOVE, task.pos, task.seq);
    }
    enter(tx, task);
  }
}

/** It stays pending, so that neither its key nor its time to live is looked at. */
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

interface KeptRow {
  queue: number;
  rank: number;
  pos: number;
}

const DUE_ELSEWHERE = `
  SELECT queue, rank, pos FROM ready_elsewhere WHERE until <= ? ORDER BY until, task LIMIT 0 + ?`;

function endDueElsewhere(tx: Tx): void {
  for (const row of tx.all<KeptRow>(DUE_ELSEWHERE, tx.now, BOUNDS.sweep)) {
    endRetryElsewhere(tx, tx.queueOf(row.queue), row.rank, row.pos);
  }
}

const DUE_LANES = `
  SELECT wake.queue, group_key FROM wake CROSS JOIN queue ON queue.id = wake.queue
  WHERE at <= ? ORDER BY at, queue.name, group_key LIMIT 0 + ?`;

/** More of them may start. */
function fillDueLanes(tx: Tx): void {
  const due = tx.all<{ queue: number; group_key: string }>(DUE_LANES, tx.now, BOUNDS.sweep);
  for (const { queue, group_key: key } of due) fillLane(tx, tx.queueOf(queue), key);
}

const OUTLIVED = `SELECT task FROM ttl WHERE expires_at <= ? ORDER BY expires_at, task LIMIT 0 + ?`;

function expire(tx: Tx): void {
  for (const row of tx.all<{ task: number }>(OUTLIVED, tx.now, BOUNDS.sweep)) {
    const task = findBySeq(tx, row.task)!;
    // Those of a run go together: one that expires has the others cancelled.
    if (isEnd(task.place.state)) continue;
    takeOut(tx, task);
    end(tx, task, "expired");
  }
}
