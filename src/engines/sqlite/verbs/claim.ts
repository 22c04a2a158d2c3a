import { AnswerSize, countFitting } from "../../../core/answer-size.ts";
import { deadlineOf, isSilent, leaseOfClaim, sessionGone } from "../../../core/lease.ts";
import type { ClaimOutcome, ClaimRequest } from "../../../engine/claim-request.ts";
import { subtractClaimed } from "../../../engine/subtract-claimed.ts";
import { lookAtLimited, takeLimited } from "./claim-limited.ts";
import { readElsewhere, readLine, sizeOf, specialsOf } from "../line/in-line.ts";
import { sweep, sweepIsDue } from "../line/sweep.ts";
import { takeLine, type Terms } from "../line/take.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The verb `claim`: goes through the queues of a request. line/in-line.ts reads the line and line/take.ts takes from
 * it; claim-limited.ts does that for queues with limits.
 */

export function claim(tx: Tx, request: ClaimRequest): ClaimOutcome {
  const session = request.session === undefined ? null : liveSession(tx, request.session);
  sweep(tx);
  const outcome: ClaimOutcome = { tasks: [], policies: {}, passed: false, more: false };
  const turn: Turn = { request, session, outcome, size: new AnswerSize() };
  if (request.share !== undefined) {
    for (const name of request.queues) take(tx, turn, name, request.share);
  }
  for (const name of request.queues) take(tx, turn, name, request.max);
  if (session) signOfLife(tx, session, request, outcome);
  subtractClaimed(outcome, tx.batch.hint);
  return outcome;
}

/** The answer if there is nothing to do, which needs no lock; undefined if there is. */
export function claimNothing(tx: Tx, request: ClaimRequest): ClaimOutcome | undefined {
  if (request.session !== undefined) liveSession(tx, request.session);
  if (sweepIsDue(tx)) return undefined;
  let passed = false;
  for (const name of request.queues) {
    const queue = tx.queues.named(name);
    if (request.max <= 0 || !queue || queue.paused) continue;
    const line = queue.limited ? lookAtLimited(tx, queue, request) : lookAtNothing(tx, queue, request);
    if (!line) return undefined;
    passed ||= line.passed;
  }
  return { tasks: [], policies: {}, passed, more: false };
}

const READY_EXISTS = `SELECT 1 FROM ready WHERE queue = ? LIMIT 1`;

/** Undefined if there is a task to claim. */
function lookAtNothing(tx: Tx, queue: Queue, { worker }: ClaimRequest): { passed: boolean } | undefined {
  if (tx.get(READY_EXISTS, queue.id)) return undefined;
  const { allowed, passed } = readElsewhere(tx, queue, worker);
  return allowed.length > 0 ? undefined : { passed };
}

interface SessionRow {
  id: number;
  lease: number;
  heartbeat_at: number;
  mixed: number;
  overdue_at: number | null;
}

const SESSION = `SELECT id, lease, heartbeat_at, mixed, overdue_at FROM session WHERE id = ?`;

/** A session past its lease is refused, even if no sweep has found it yet: its new claims would expire at once. */
function liveSession(tx: Tx, id: number): SessionRow {
  const session = tx.get<SessionRow>(SESSION, id);
  if (!session || isSilent({ heartbeatAt: session.heartbeat_at, lease: session.lease }, tx.awake))
    throw sessionGone(id);
  return session;
}

const SIGN_OF_LIFE = `UPDATE session SET heartbeat_at = ?, mixed = ?, overdue_at = ? WHERE id = ?`;

/** The queue's lease may be shorter than the time since the last heartbeat, and counts from now. */
function signOfLife(tx: Tx, session: SessionRow, request: ClaimRequest, outcome: ClaimOutcome): void {
  if (outcome.tasks.length === 0) return;
  let { mixed, overdue_at: overdueAt } = session;
  for (const policy of Object.values(outcome.policies)) {
    if (leaseOfClaim(request.lease, policy, session) !== session.lease) mixed = 1;
    overdueAt = Math.min(overdueAt ?? Number.POSITIVE_INFINITY, tx.awake + policy.timeout);
  }
  const same =
    session.heartbeat_at === tx.awake && session.mixed === mixed && session.overdue_at === overdueAt;
  if (same) return;
  tx.run(SIGN_OF_LIFE, tx.awake, mixed, overdueAt, session.id);
  tx.batch.workers.clear();
}

/** One call, and what it has claimed so far. */
interface Turn {
  request: ClaimRequest;
  session: SessionRow | null;
  outcome: ClaimOutcome;
  size: AnswerSize;
}

/** Up to `count` tasks from one queue, in its order. */
function take(tx: Tx, turn: Turn, name: string, count: number): void {
  const { request, outcome, size } = turn;
  const room = Math.min(count, request.max - outcome.tasks.length);
  const queue = tx.queues.named(name);
  if (room <= 0 || size.isFull || !queue || queue.paused) return;
  const terms = termsOf(tx, turn, queue);
  if (queue.limited) return takeLimited(tx, request, terms, room, outcome);
  const line = readLine(tx, queue, request, room);
  outcome.passed ||= line.passed;
  if (line.rows.length === 0) return;
  let specials = specialsOf(tx, line.rows);
  const fit = countFitting(line.rows, (row, i) => sizeOf(row, specials[i]!), size);
  if (fit < line.rows.length) {
    size.close();
    outcome.more = true;
    line.rows = line.rows.slice(0, fit);
    specials = specials.slice(0, fit);
  }
  if (fit > 0) takeLine(tx, terms, line, specials, outcome);
}

function termsOf(tx: Tx, { request, session, size }: Turn, queue: Queue): Terms {
  const lease = leaseOfClaim(request.lease, queue.policy, session);
  const deadline = deadlineOf(lease, queue.policy, session, tx.awake);
  return { queue, worker: request.worker, session: session && session.id, lease, deadline, size };
}
