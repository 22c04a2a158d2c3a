import { lostError, timeoutError } from "../../../core/errors/attempt-errors.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import { butForBusy, firstDue, firstFree, noteMoreDue, withGates, withRuns } from "./first-due.ts";
import { followEnds } from "./follow-ends.ts";
import { endRetryElsewhere, releaseSticky } from "./enter-line.ts";
import { notify } from "./notices.ts";
import { sinceFloor } from "./floors.ts";
import { type ClaimRow, heldFrom, selectClaims } from "./held.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { fillLanes } from "../limits/lane-line.ts";
import { end, fail, type Held } from "./line.ts";
import { TASK_OF } from "../statements/look-up.ts";
import { newest } from "../statements/newest.ts";
import { findMany } from "./find-task.ts";
import { DUE, type DueRow, promote } from "./promote.ts";
import { openGates } from "../limits/review.ts";
import { takeFree } from "./take-out.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The sweep: expires leases, manual claims and tasks, and promotes what is due, a bounded number per call. Claims and
 * `housekeep` call it.
 */

/** The earliest due time of each kind. */
export interface NextDue {
  session: number | null;
  hand: number | null;
  due: number | null;
  elsewhere: number | null;
  ttl: number | null;
  /** When more tasks of a group or a queue may start. */
  wake?: number | null;
}

// Each is read from the first entry of an index.
const nextDueWith = (more: string): string => `
  SELECT ${more}
    (SELECT min(heartbeat_at + lease) FROM dibs.session WHERE ${sinceFloor("session", "heartbeat_at + lease")}) AS session,
    (SELECT min(deadline) FROM dibs.claim WHERE session IS NULL AND ${sinceFloor("hand", "deadline")}) AS hand,
    (SELECT min(due) FROM dibs.scheduled WHERE ${sinceFloor("scheduled", "due")}) AS due,
    (SELECT min(until) FROM dibs.ready_elsewhere WHERE ${sinceFloor("ready_elsewhere", "until")}) AS elsewhere,
    (SELECT min(expires_at) FROM dibs.ttl WHERE ${sinceFloor("ttl", "expires_at")}) AS ttl`;
const NEXT_DUE = nextDueWith("");
const NEXT_DUE_WITH_LIMITS = nextDueWith(`
    least((SELECT min(wake_at) FROM dibs.lane WHERE wake_at IS NOT NULL AND ${sinceFloor("lane", "wake_at")}),
      (SELECT min(wake_at) FROM dibs.gate WHERE wake_at IS NOT NULL AND ${sinceFloor("gate", "wake_at")})) AS wake,`);

export async function nextDue(tx: Tx): Promise<NextDue> {
  tx.limits.flush();
  return (await tx.get<NextDue>(tx.queues.hasLimits ? NEXT_DUE_WITH_LIMITS : NEXT_DUE))!;
}

function isAhead(tx: Tx, nextDue: NextDue): boolean {
  return Object.values(nextDue).every((at: number | null) => at === null || at > tx.now);
}

/**
 * Processes a bounded number of due rows of each kind. Any number of processes may sweep at once: each skips rows that
 * another one has locked. `first`: the next due times, if they are known already.
 */
export async function sweep(tx: Tx, first?: NextDue): Promise<void> {
  tx.batch.beginSweep();
  if (tx.batch.isSwept) return;
  if (isAhead(tx, first ?? (await nextDue(tx)))) {
    tx.batch.noteSwept();
    return;
  }
  await expireSilentSessions(tx);
  await expireManualClaims(tx);
  await promote(tx, await firstDue<DueRow>(tx, DUE, tx.now));
  await endDueElsewhere(tx);
  if (tx.queues.hasLimits) {
    await fillDueLanes(tx);
    await openGates(tx);
  }
  await expire(tx);
}

interface SilentSession {
  id: number;
  worker: string;
  info: string;
  heartbeat_at: number;
}

const SILENT = `
  SELECT id, worker, info, heartbeat_at FROM dibs.session
  WHERE heartbeat_at + lease <= $1 AND ${sinceFloor("session", "heartbeat_at + lease")} ORDER BY id FOR UPDATE SKIP LOCKED`;
// Scans all claims, which are few. An index by session would cost every claim.
const LOST = selectClaims(
  `claim.session = $1 AND claim.lease <= $2 AND ${butForBusy("claim.queue", "task.group_key")} ORDER BY claim.task LIMIT $4`,
  "FOR UPDATE OF claim SKIP LOCKED",
);
const HOLDS = `SELECT 1 FROM dibs.claim WHERE session = $1 LIMIT 1`;

/**
 * Expires the claims of sessions without heartbeats. A session is deleted once it has no claims, and no transaction can
 * make tasks sticky to it.
 */
async function expireSilentSessions(tx: Tx): Promise<void> {
  for (const session of await tx.all<SilentSession>(SILENT, tx.now)) {
    const silentFor = tx.now - session.heartbeat_at;
    const found = await firstFree(tx, (busy) =>
      tx.all<ClaimRow>(LOST, session.id, silentFor, busy, BOUNDS.sweep),
    );
    const lost = await withRuns(tx, found);
    for (const row of lost) await expireClaim(tx, heldFrom(tx, row));
    noteMoreDue(tx, lost);
    if (await tx.get(HOLDS, session.id)) continue;
    if (!(await tryToHoldAll(tx, stickyQueues(tx, session.info)))) continue;
    forgetSession(tx, session.id, session.info);
    await releaseSticky(tx, session.id);
    tx.events.announce({ type: "worker.lost", at: tx.now, worker: session.worker });
  }
}

/**
 * Queues with groups that may be sticky to this session. A transaction that makes a task sticky holds the queue's gate.
 * If the session were deleted without the gate, no worker could claim that task.
 */
export function stickyQueues(tx: Tx, info: string): Queue[] {
  if (!tx.queues.hasLimits) return [];
  const { queues } = JSON.parse(info) as { queues: string[] };
  return queues.flatMap((name) => tx.queues.named(name) ?? []).filter(({ policy }) => policy.groups.sticky);
}

async function tryToHoldAll(tx: Tx, queues: Queue[]): Promise<boolean> {
  for (const queue of queues) if (!(await tx.limits.tryToHold(queue))) return false;
  return true;
}

const DELETE_SESSION = `DELETE FROM dibs.session WHERE ${newest("session", "$1")}`;
const DELETE_SERVING = `DELETE FROM dibs.serving WHERE queue = ANY ($1::text[]) AND session = $2`;
const DELETE_NOTICES = `DELETE FROM dibs.notice WHERE session = $1`;

/** `info`: the worker's data from its join. */
export function forgetSession(tx: Tx, id: number, info: string): void {
  stopServing(tx, id, info);
  tx.send(DELETE_SESSION, id);
  tx.send(DELETE_NOTICES, id);
}

/** The worker claims nothing more. */
export function stopServing(tx: Tx, id: number, info: string): void {
  const { queues } = JSON.parse(info) as { queues: string[] };
  tx.send(DELETE_SERVING, queues, id);
  tx.batch.workers.clear();
}

export async function expireClaim(tx: Tx, task: Held): Promise<void> {
  notify(tx, "lost", task);
  await fail(tx, task, "lost", lostError(task.worker), 0);
  await followEnds(tx);
}

const EXPIRED_MANUAL = selectClaims(
  `claim.session IS NULL AND claim.deadline <= $1 AND ${sinceFloor("hand", "claim.deadline")}
    AND ${butForBusy("claim.queue", "task.group_key")} ORDER BY claim.deadline, claim.task LIMIT $2`,
  "FOR UPDATE OF claim SKIP LOCKED",
);

async function expireManualClaims(tx: Tx): Promise<void> {
  for (const row of await firstDue<ClaimRow>(tx, EXPIRED_MANUAL, tx.now, (rows) => withRuns(tx, rows)))
    await expireClaim(tx, heldFrom(tx, row));
}

const OVERDUE = selectClaims(
  `claim.session = $1 AND claim.deadline <= $2 ORDER BY claim.task`,
  "FOR UPDATE OF claim SKIP LOCKED",
);
const NEXT_OVERDUE = `SELECT min(deadline) AS deadline FROM dibs.claim WHERE session = $1`;

/**
 * Ends claims past their timeout. Only the session's own heartbeat does this: a live worker gets a notice, a dead one
 * loses all its claims. `next`: the next timeout.
 */
export async function endOverdue(tx: Tx, session: number): Promise<{ ended: Held[]; next: number | null }> {
  // A heartbeat must not wait for a gate or a run. The next heartbeat ends what is left.
  const free = await withGates(tx, await tx.all<ClaimRow>(OVERDUE, session, tx.now));
  const rows = await withRuns(tx, free);
  const ended = rows.map((row) => heldFrom(tx, row));
  for (const task of ended) await fail(tx, task, "timeout", timeoutError(), 0);
  return { ended, next: (await tx.get<{ deadline: number | null }>(NEXT_OVERDUE, session))!.deadline };
}

const DUE_ELSEWHERE = `
  SELECT queue, rank, pos FROM dibs.ready_elsewhere WHERE until <= $1 AND ${sinceFloor("ready_elsewhere", "until")} ORDER BY until, task LIMIT $2 FOR UPDATE SKIP LOCKED`;
/** Failed tasks that no other worker took in time. */
async function endDueElsewhere(tx: Tx): Promise<void> {
  const rows = await tx.all<{ queue: number; rank: number; pos: number }>(
    DUE_ELSEWHERE,
    tx.now,
    BOUNDS.sweep,
  );
  noteMoreDue(tx, rows);
  await endRetryElsewhere(tx, rows);
}

const DUE_LANES = `
  SELECT lane.queue, lane.group_key FROM dibs.lane JOIN dibs.queue ON queue.id = lane.queue
  WHERE wake_at <= $1 AND ${sinceFloor("lane", "wake_at")} AND ${butForBusy("lane.queue", "lane.group_key")}
  ORDER BY wake_at, queue.name, group_key LIMIT $2`;

/** Groups of which more tasks may start now. */
async function fillDueLanes(tx: Tx): Promise<void> {
  tx.limits.flush();
  const rows = await firstDue<{ queue: number; group_key: string }>(tx, DUE_LANES, tx.now);
  while (rows.length > 0) {
    const { queue } = rows[0]!;
    const end = rows.findIndex((row) => row.queue !== queue);
    const next = rows.splice(0, end < 0 ? rows.length : end);
    await fillLanes(
      tx,
      tx.queues.of(queue),
      next.map((row) => row.group_key),
    );
  }
}

const OUTLIVED = `
  SELECT ttl.task, task.queue, task.group_key FROM dibs.ttl CROSS JOIN ${TASK_OF("ttl")}
  WHERE ttl.expires_at <= $1 AND ${sinceFloor("ttl", "ttl.expires_at")} AND ${butForBusy("task.queue", "task.group_key")}
  ORDER BY ttl.expires_at, ttl.task LIMIT $2`;

async function expire(tx: Tx): Promise<void> {
  const rows = await firstDue<{ task: number; queue: number; group_key: string | null }>(
    tx,
    OUTLIVED,
    tx.now,
    (outlived) => withRuns(tx, outlived),
  );
  const outlived = await findMany(
    tx,
    rows.map((row) => row.task),
  );
  for (const found of outlived) {
    const task = await takeFree(tx, found);
    if (!task) continue;
    await end(tx, task, "expired");
    await followEnds(tx);
  }
}
