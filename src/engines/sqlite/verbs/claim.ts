import { AnswerSize, countFitting } from "../../../core/answer/answer-size.ts";
import { deadlineOf, isSilent, leaseOfClaim, sessionGone } from "../../../core/task/lease.ts";
import type { ClaimOutcome, ClaimRequest } from "../../../engine/claim-request.ts";
import { firstRound, nextRound, type Round } from "../../../engine/claim-rounds.ts";
import { subtractClaimed } from "../../../engine/subtract-claimed.ts";
import { lookAtLimited, takeLimited } from "./claim-limited.ts";
import { withTasks } from "./claim-many.ts";
import { isOutlived } from "../../../core/task/transition.ts";
import { type Line, readElsewhere, readLine, sizeOf, specialsOf } from "../line/in-line.ts";
import { sweep, sweepIsDue } from "../line/sweep.ts";
import { type Head, takeHeads, takeLine, type Terms } from "../line/take.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The verb `claim`: goes through the queues of a request. claim-many.ts finds those that have tasks, line/in-line.ts reads
 * the line and line/take.ts takes from it; claim-limited.ts does that for queues with limits.
 */

export function claim(tx: Tx, request: ClaimRequest): ClaimOutcome {
  const session = request.session === undefined ? null : liveSession(tx, request.session);
  sweep(tx);
  const outcome: ClaimOutcome = { tasks: [], policies: {}, passed: false, more: false };
  const turn: Turn = { request, session, outcome, size: new AnswerSize(), heads: [], waiting: 0 };
  let round: Round | undefined = firstRound(request);
  while (round) round = nextRound(request, outcome, takeRound(tx, turn, round));
  if (session) signOfLife(tx, session, request, outcome);
  subtractClaimed(outcome, tx.batch.hint);
  return outcome;
}

/** The answer if there is nothing to do, which needs no lock; undefined if there is. */
export function claimNothing(tx: Tx, request: ClaimRequest): ClaimOutcome | undefined {
  if (request.session !== undefined) liveSession(tx, request.session);
  if (sweepIsDue(tx)) return undefined;
  let passed = false;
  let behind = request.max > 0 ? request.queues : [];
  while (behind.length > 0) {
    const page = withTasks(tx, behind, LOOK_AT_ONCE);
    for (const queue of page.queues) {
      const line = queue.limited ? lookAtLimited(tx, queue, request) : lookAtNothing(tx, queue, request);
      if (!line) return undefined;
      passed ||= line.passed;
    }
    behind = page.behind;
  }
  return { tasks: [], policies: {}, passed, more: false };
}

/** The first queue that has tasks is mostly enough. */
const LOOK_AT_ONCE = 8;

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
  /** Tasks that were read and not moved yet: those of many queues are moved together. */
  heads: Head[];
  /** How many tasks these are. */
  waiting: number;
}

/** Returns the queues that gave their whole share. */
function takeRound(tx: Tx, turn: Turn, { queues, share }: Round): string[] {
  const generous: string[] = [];
  let behind = queues;
  while (behind.length > 0 && roomOf(turn) > 0) behind = takePage(tx, turn, behind, share, generous);
  return generous;
}

function roomOf({ request, outcome, size, waiting }: Turn): number {
  return size.isFull ? 0 : request.max - outcome.tasks.length - waiting;
}

/** Takes from the first of these queues that have tasks, and returns the names behind them. */
function takePage(tx: Tx, turn: Turn, names: string[], share: number, generous: string[]): string[] {
  const { outcome } = turn;
  const page = withTasks(tx, names, roomOf(turn));
  for (const queue of page.queues) {
    if (roomOf(turn) <= 0) break;
    const count = Math.min(share, roomOf(turn));
    const before = outcome.tasks.length + turn.waiting;
    const line = queue.limited ? undefined : readPlain(tx, turn, queue, count, page.hasElsewhere(queue));
    const isSimple = line && addHead(tx, turn, queue, line);
    const expired = !isSimple && takeAlone(tx, turn, queue, count);
    if (outcome.tasks.length + turn.waiting - before === share) generous.push(queue.name);
    // The end of a task may have put others into the line of a queue that had none.
    if (expired) return names.slice(names.indexOf(queue.name) + 1);
  }
  takeWaiting(tx, turn);
  return page.behind;
}

function readPlain(
  tx: Tx,
  { request, outcome }: Turn,
  queue: Queue,
  count: number,
  hasElsewhere: boolean,
): Line {
  const line = readLine(tx, queue, request, count, { hasElsewhere });
  outcome.passed ||= line.passed;
  return line;
}

/** False if these tasks cannot be moved together with those of other queues. */
function addHead(tx: Tx, turn: Turn, queue: Queue, { rows, otherTables }: Line): boolean {
  if (rows.length === 0) return true;
  if (otherTables.size > 0) return false;
  const specials = specialsOf(tx, rows);
  if (specials.some((special) => isOutlived(special.expires_at, tx.now))) return false;
  turn.heads.push({ terms: termsOf(tx, turn, queue), rows, specials });
  turn.waiting += rows.length;
  return true;
}

/** Claims the tasks that were read, as far as the answer has room. */
function takeWaiting(tx: Tx, turn: Turn): void {
  const { heads, outcome, size } = turn;
  if (heads.length === 0) return;
  turn.heads = [];
  turn.waiting = 0;
  const ahead = size.copy();
  const fitting = heads.map((head) => {
    const fit = countFitting(head.rows, (row, i) => sizeOf(row, head.specials[i]!), ahead);
    for (let i = 0; i < fit; i++) ahead.add(sizeOf(head.rows[i]!, head.specials[i]!));
    if (fit < head.rows.length) ahead.close();
    return fit === head.rows.length ? head : cut(head, fit);
  });
  if (ahead.isFull) {
    size.close();
    outcome.more = true;
  }
  takeHeads(
    tx,
    fitting.filter(({ rows }) => rows.length > 0),
    outcome,
  );
}

function cut({ terms, rows, specials }: Head, fit: number): Head {
  return { terms, rows: rows.slice(0, fit), specials: specials.slice(0, fit) };
}

/** Up to `count` tasks from one queue, in its order. Returns whether some have expired. */
function takeAlone(tx: Tx, turn: Turn, queue: Queue, count: number): boolean {
  const { request, outcome, size } = turn;
  takeWaiting(tx, turn);
  if (size.isFull) return false;
  const { more } = outcome;
  outcome.more = false;
  const terms = termsOf(tx, turn, queue);
  if (queue.limited) takeLimited(tx, request, terms, count, outcome);
  else takePlain(tx, turn, terms, count);
  const expired = outcome.more;
  outcome.more ||= more;
  return expired;
}

function takePlain(tx: Tx, { request, outcome, size }: Turn, terms: Terms, count: number): void {
  const line = readLine(tx, terms.queue, request, count);
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
