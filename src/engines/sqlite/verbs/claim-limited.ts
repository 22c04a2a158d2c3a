import { type AnswerSize, countFitting } from "../../../core/answer/answer-size.ts";
import { governsGroups } from "../../../core/queue/policy.ts";
import { isEmpty, roomFor } from "../../../core/queue/rate.ts";
import { isOutlived } from "../../../core/task/transition.ts";
import type { ClaimOutcome, ClaimRequest } from "../../../engine/claim-request.ts";
import {
  allowanceFor,
  countStart,
  type Gate,
  gateOf,
  isAnyReady,
  opensFor,
  saveGate,
  wakeGate,
} from "../limits/gates.ts";
import { type Line, type LineRow, readLine, sizeOf, type Special, specialsOf } from "../line/in-line.ts";
import { promoteNext, type Started } from "../limits/move-lanes.ts";
import { takeLine, type Terms } from "../line/take.ts";
import { COUNTED, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** The general path of `claim`: queues with limits. claim.ts calls it. */

/** Up to `count` tasks in the order of the line, as far as limits allow. */
export function takeLimited(
  tx: Tx,
  request: ClaimRequest,
  terms: Terms,
  count: number,
  outcome: ClaimOutcome,
): void {
  const { queue, size } = terms;
  const gate = gateOf(tx, queue);
  if (gate.reviewed !== null) {
    outcome.more = true;
    return;
  }
  const { room: allowed, urgentOnly, until } = allowanceFor(tx, gate);
  const opens = until !== null && isAnyReady(tx, queue) ? [until] : [];
  let room = Math.min(count, allowed);
  while (room > 0) {
    const line = lookWithin(tx, gate, request, size, { room, urgentOnly });
    outcome.passed ||= line.passed;
    const { rows, specials, next, isCut } = line;
    if (isCut) {
      size.close();
      outcome.more = true;
    }
    if (next > tx.now) opens.push(next);
    if (rows.length === 0) break;
    takeLine(tx, terms, line, specials, outcome);
    if (queue.lanes === COUNTED) promoteNext(tx, queue, terms.session, startedOf(tx, rows, specials));
    room -= rows.length;
    // If groups may have only so many tasks in the line, claims have promoted others.
    if (isCut || !governsGroups(queue.policy)) break;
  }
  if (opens.length > 0) wakeGate(tx, gate, Math.min(...opens, gate.wakeAt ?? opens[0]!));
  saveGate(tx, gate);
}

function startedOf(tx: Tx, rows: readonly LineRow[], specials: readonly Special[]): Started[] {
  return rows.flatMap((row, i) => {
    const { group_key: key, cost, expires_at: expiresAt } = specials[i]!;
    return key === null || isOutlived(expiresAt, tx.now) ? [] : [{ seq: row[2], key, cost: cost ?? 1 }];
  });
}

interface Seen extends Line {
  specials: Special[];
}

interface LineWithin extends Seen {
  /** When the next task may start. */
  next: number;
  /** The answer size was reached. */
  isCut: boolean;
}

/** Claims from the line, as far as the rates of the queue allow, and charges them. */
function lookWithin(
  tx: Tx,
  gate: Gate,
  request: ClaimRequest,
  size: AnswerSize,
  { room, urgentOnly }: { room: number; urgentOnly: boolean },
): LineWithin {
  const { queue } = gate;
  const { rateLimit } = queue.policy;
  // One more than may start, if the queue has a rate: to know when that one may.
  const all = rateLimit.length > 0 ? room + 1 : room;
  const most = Math.min(all, roomFor(rateLimit, gate.meter, tx.now) + 1);
  const first = look(tx, queue, request, most, urgentOnly);
  // Expired tasks do not start, and make room for others.
  const isShort = most < all && first.specials.some((special) => isOutlived(special.expires_at, tx.now));
  const line = isShort ? look(tx, queue, request, all, urgentOnly) : first;
  const fit = countFitting(line.rows, (row, i) => sizeOf(row, line.specials[i]!), size);
  const { count, next } = countWithin(tx, gate, line, Math.min(room, fit));
  return {
    ...line,
    rows: line.rows.slice(0, count),
    specials: line.specials.slice(0, count),
    next,
    isCut: count === fit && fit < Math.min(room, line.rows.length),
  };
}

function look(tx: Tx, queue: Queue, request: ClaimRequest, most: number, urgentOnly: boolean): Seen {
  const line = readLine(tx, queue, request, most, { urgentOnly });
  return { ...line, specials: specialsOf(tx, line.rows) };
}

/** How many of the first tasks the queue's rates allow, and when the next may start. */
function countWithin(
  tx: Tx,
  gate: Gate,
  { rows, specials }: Seen,
  room: number,
): { count: number; next: number } {
  const count = Math.min(rows.length, room);
  if (gate.queue.policy.rateLimit.length === 0 && isEmpty(gate.meter)) return { count, next: tx.now };
  for (const [index, { expires_at: expiresAt, cost }] of specials.slice(0, count).entries()) {
    if (isOutlived(expiresAt, tx.now)) continue;
    const at = opensFor(tx, gate, cost ?? 1);
    if (at > tx.now) return { count: index, next: at };
    countStart(tx, gate, cost ?? 1);
  }
  const after = specials[count];
  return { count, next: after ? opensFor(tx, gate, after.cost ?? 1) : tx.now };
}

/** Undefined if a claim would take a task, or set a wake time. */
export function lookAtLimited(tx: Tx, queue: Queue, request: ClaimRequest): { passed: boolean } | undefined {
  const gate = gateOf(tx, queue);
  const { room, urgentOnly, until } = allowanceFor(tx, gate);
  if (until !== null && !isWokenBy(gate, until) && isAnyReady(tx, queue)) return undefined;
  if (room === 0) return { passed: false };
  const { specials, passed } = look(tx, queue, request, 1, urgentOnly);
  return specials.every((first) => isAwaited(tx, gate, first)) ? { passed } : undefined;
}

/** It may not start yet, and a wake time is set. */
function isAwaited(tx: Tx, gate: Gate, { expires_at: expiresAt, cost }: Special): boolean {
  const at = opensFor(tx, gate, cost ?? 1);
  return !isOutlived(expiresAt, tx.now) && at > tx.now && isWokenBy(gate, at);
}

function isWokenBy({ wakeAt }: Gate, at: number): boolean {
  return wakeAt !== null && wakeAt <= at;
}
