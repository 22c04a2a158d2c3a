import { AnswerSize } from "../../../core/answer/answer-size.ts";
import { governsGroups } from "../../../core/queue/policy.ts";
import type { ClaimOutcome, ClaimRequest } from "../../../engine/claim-request.ts";
import { firstRound, nextRound, type Round } from "../../../engine/claim-rounds.ts";
import { subtractClaimed } from "../../../engine/subtract-claimed.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { claimHead } from "./claim-fast.ts";
import { takeHeads } from "./claim-heads.ts";
import { FEW, withTasks } from "./claim-many.ts";
import { type SessionRow, takeOnGeneralPath, type Turn } from "./claim-general.ts";
import { allowanceFor, isAnyReady, hasNoLimits } from "../limits/gates.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { isFresh, newest, HEARTBEAT } from "../statements/newest.ts";
import { isSilent, leaseOfClaim, sessionGone } from "../../../core/task/lease.ts";
import { type NextDue, nextDue, sweep } from "../line/sweep.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The verb `claim`: goes through the queues of a request, and chooses the fast path (claim-fast.ts) or the general
 * path (claim-general.ts) for each.
 */

export async function claim(tx: Tx, request: ClaimRequest): Promise<ClaimOutcome> {
  const outcome: ClaimOutcome = { tasks: [], policies: {}, passed: false, more: false };
  const turn: Turn = {
    swept: tx.batch.isSwept,
    session: null,
    outcome,
    left: new Map(),
    size: new AnswerSize(),
  };
  if (request.max <= 0 || !request.queues.some((name) => isOpen(tx, name)))
    await sweepFirst(tx, request, turn);
  else if (request.queues.length > FEW) await takeFromMany(tx, request, turn);
  else await takeFromFew(tx, request, turn);
  if (turn.session) renewSession(tx, turn.session, request, outcome);
  subtractClaimed(outcome, tx.batch.hint);
  for (const [queue, count] of turn.left) tx.batch.hintReady(queue, count);
  return outcome;
}

async function takeFromFew(tx: Tx, request: ClaimRequest, turn: Turn): Promise<void> {
  let round: Round | undefined = firstRound(request);
  while (round) {
    const generous: string[] = [];
    for (const name of round.queues)
      if ((await take(tx, request, turn, name, round.share)) === round.share) generous.push(name);
    round = nextRound(request, turn.outcome, generous);
  }
}

/** As above, for many queues, most of which may be empty. The sweep comes first, because it may fill some. */
async function takeFromMany(tx: Tx, request: ClaimRequest, turn: Turn): Promise<void> {
  // A claim that is refused changes nothing, so this comes before the sweep.
  if (request.session !== undefined) await liveSession(tx, request.session);
  await sweep(tx);
  turn.swept = true;
  let round: Round | undefined = firstRound(request);
  while (round) round = nextRound(request, turn.outcome, await takeInPages(tx, request, turn, round));
}

/** Mostly the first queues have tasks, and then ten thousand others need not be looked at. */
const FIRST_REACH = 256;

/**
 * Claims up to a share from each queue that has tasks. These may be for other workers, or locked: then it continues with
 * the queues behind. Returns the queues that gave their whole share.
 */
async function takeInPages(
  tx: Tx,
  request: ClaimRequest,
  turn: Turn,
  { queues, share }: Round,
): Promise<string[]> {
  const generous: string[] = [];
  let behind = queues;
  let reach = Math.max(FIRST_REACH, 4 * request.max);
  while (behind.length > 0 && roomOf(request, turn) > 0) {
    const page = await withTasks(tx, { ...request, queues: behind, max: roomOf(request, turn) }, reach);
    // Few have tasks: a look at many more costs less than many round trips.
    reach *= 8;
    let { queues: left } = page;
    while (left.length > 0 && roomOf(request, turn) > 0) {
      const heads = await takeHeads(
        tx,
        request,
        { ...page, queues: left },
        { share, room: roomOf(request, turn) },
      );
      // None, if the first queue takes the general path.
      const count = Math.max(heads, 1);
      for (const { name } of left.slice(0, count))
        if ((await take(tx, request, turn, name, share)) === share) generous.push(name);
      left = left.slice(count);
    }
    behind = page.behind;
  }
  return generous;
}

function roomOf({ max }: ClaimRequest, { outcome, size }: Turn): number {
  return size.isFull ? 0 : max - outcome.tasks.length;
}

function isOpen(tx: Tx, name: string): boolean {
  const queue = tx.queues.named(name);
  return queue !== undefined && !queue.paused;
}

async function sweepFirst(tx: Tx, request: ClaimRequest, turn: Turn): Promise<void> {
  await sweepAfter(tx, turn, await lookFirst(tx, request, turn));
}

/** Before a claim changes anything: reads its session and what is due. */
async function lookFirst(tx: Tx, request: ClaimRequest, turn: Turn): Promise<NextDue | undefined> {
  const [session, first] = await allAnswered([
    request.session === undefined || turn.session ? turn.session : liveSession(tx, request.session),
    turn.swept || tx.batch.isSwept ? undefined : nextDue(tx),
  ]);
  turn.session = session;
  return first;
}

async function sweepAfter(tx: Tx, turn: Turn, first: NextDue | undefined): Promise<void> {
  if (turn.swept) return;
  turn.swept = true;
  await sweep(tx, first);
}

/** Up to `count` tasks from one queue, in its order. Returns how many. */
async function take(tx: Tx, request: ClaimRequest, turn: Turn, name: string, count: number): Promise<number> {
  const { length } = turn.outcome.tasks;
  const room = Math.min(count, request.max - length);
  const queue = tx.queues.named(name);
  if (room > 0 && queue && !queue.paused) await takeFrom(tx, request, turn, queue, room);
  return turn.outcome.tasks.length - length;
}

async function takeFrom(
  tx: Tx,
  request: ClaimRequest,
  turn: Turn,
  queue: Queue,
  room: number,
): Promise<void> {
  const { outcome, size } = turn;
  // The statement that was sent ahead may have claimed tasks, which must go back.
  if (size.isFull && !tx.sentAhead.has(queue)) return;
  if (queue.limited && !(await hasNoLimits(tx, queue)))
    return takeWithinLimits(tx, request, turn, queue, room);
  const head = await claimHead(tx, request, queue, { room, size });
  if (head === "gone") throw sessionGone(request.session!);
  if (head === "busy") {
    // The queue may have got a hold meanwhile.
    if (queue.limited) return takeWithinLimits(tx, request, turn, queue, room);
    await sweepFirst(tx, request, turn);
    return void (await takeOnGeneralPath(tx, request, turn, queue, { room, urgentOnly: false }));
  }
  turn.swept = true;
  if (head.left > 0) {
    size.close();
    outcome.more = true;
    turn.left.set(queue, head.left);
  }
  if (head.tasks.length === 0) return;
  outcome.tasks.push(...head.tasks);
  outcome.policies[queue.name] = queue.policy;
}

/** As above, for a queue with limits. */
async function takeWithinLimits(
  tx: Tx,
  request: ClaimRequest,
  turn: Turn,
  queue: Queue,
  wanted: number,
): Promise<void> {
  // Sent together: each would be a round trip.
  const [first] = await allAnswered([lookFirst(tx, request, turn), tx.limits.hold(queue)]);
  await sweepAfter(tx, turn, first);
  const { gate, allowance } = await allowanceFor(tx, queue);
  if (gate.reviewed !== null) {
    turn.outcome.more = true;
    return;
  }
  const { urgentOnly, until } = allowance;
  const opens = until !== null && (await isAnyReady(tx, queue)) ? [until] : [];
  let room = Math.min(wanted, allowance.room);
  while (room > 0) {
    const { taken, more, next } = await takeOnGeneralPath(tx, request, turn, queue, { room, urgentOnly });
    room -= taken;
    if (next > tx.now) opens.push(next);
    // If groups may have only so many tasks in the line, claims may have promoted others.
    if (!more || !governsGroups(queue.policy)) break;
  }
  if (opens.length > 0) tx.limits.wakeAt(gate, Math.min(...opens, gate.wakeAt ?? opens[0]!));
}

const SESSION = `SELECT id, lease, heartbeat_at, mixed, overdue_at FROM dibs.session WHERE ${newest("session", "$1")}`;

/** A session past its lease is refused, even if no sweep has found it yet: its new claims would expire at once. */
async function liveSession(tx: Tx, id: number): Promise<SessionRow> {
  const session = await tx.get<SessionRow>(SESSION, id);
  if (!session || isSilent({ heartbeatAt: session.heartbeat_at, lease: session.lease }, tx.now))
    throw sessionGone(id);
  return session;
}

// As in claim-fast.ts.
const RENEW_SESSION = `
  WITH fresh AS MATERIALIZED (
    SELECT id FROM dibs.session
    WHERE ${newest("session", "$1")} AND heartbeat_at + lease > $2 AND ${isFresh("$2", "$5")} AND (mixed OR NOT $3) AND overdue_at <= $4
    FOR KEY SHARE
  ), alive AS (
    UPDATE dibs.session SET heartbeat_at = greatest(heartbeat_at, $2), mixed = mixed OR $3, overdue_at = least(overdue_at, $4), n = n + 1
    WHERE ${newest("session", "$1")} AND heartbeat_at + lease > $2 AND NOT EXISTS (SELECT 1 FROM fresh) RETURNING id)
  SELECT id FROM fresh UNION ALL SELECT id FROM alive`;

/** The queue's lease may be shorter than the time since the last heartbeat, and counts from now. */
function renewSession(tx: Tx, session: SessionRow, request: ClaimRequest, outcome: ClaimOutcome): void {
  if (outcome.tasks.length === 0) return;
  const policies = Object.values(outcome.policies);
  const mixed = policies.some((policy) => leaseOfClaim(request.lease, policy, session) !== session.lease);
  const overdueAt = tx.now + Math.min(...policies.map((policy) => policy.timeout));
  tx.batch.workers.clear();
  // Locks the session's row: until the commit no transaction can end it. One that ended since the claim began has
  // lost its claims already.
  tx.sendToFind(RENEW_SESSION, session.id, tx.now, mixed, overdueAt, HEARTBEAT.fresh);
}
