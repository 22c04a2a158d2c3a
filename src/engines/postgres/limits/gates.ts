import { type Allowance, allowanceOf } from "../../../core/allowance.ts";
import { changesGroups, governsGroups, isGated } from "../../../core/policy.ts";
import {
  type Charge,
  correct,
  givesBack,
  isEmpty,
  earliestStart,
  roomFor,
  spend,
} from "../../../core/rate.ts";
import type { Op } from "../../../engine/engine.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { aboveFloor } from "../line/floors.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { nameGroupsInLine } from "../line/enter-line.ts";
import { newest } from "../statements/newest.ts";
import type { QueueGate } from "./limits.ts";
import type { Tx } from "../transaction/tx.ts";

/** How many tasks of a queue may start now, and when a queue gets a gate. Claims and settlements call it. */

const RUNNING = `SELECT count(*)::int4 AS running FROM dibs.claim WHERE queue = $1 AND counted`;
const HAS_LINE = `
  SELECT EXISTS (SELECT 1 FROM dibs.ready WHERE queue = $1 AND ${aboveFloor("$1")})
    OR EXISTS (SELECT 1 FROM dibs.ready_elsewhere WHERE queue = $1 AND ${aboveFloor("$1", "ready_elsewhere")})
    OR EXISTS (SELECT 1 FROM dibs.ready_sticky WHERE queue = $1) AS some`;

/** With what is known of the gate, which is ours from here on. */
export async function allowanceFor(tx: Tx, queue: Queue): Promise<{ gate: QueueGate; allowance: Allowance }> {
  await tx.limits.hold(queue);
  const [gate, claims] = await allAnswered([
    tx.limits.gate(queue),
    queue.policy.maxConcurrency === null ? null : tx.get<{ running: number }>(RUNNING, queue.id),
  ]);
  return { gate, allowance: allowanceOf(queue.policy, gate.heldUntil, () => claims!.running, tx.now) };
}

export async function isAnyReady(tx: Tx, queue: Queue): Promise<boolean> {
  return (await tx.get<{ some: boolean }>(HAS_LINE, queue.id))!.some;
}

/** How many of its line may start at this moment, at most. */
export async function roomOf(tx: Tx, queue: Queue): Promise<number> {
  const { gate, allowance } = await allowanceFor(tx, queue);
  const { rateLimit } = queue.policy;
  return Math.min(allowance.room, roomFor(rateLimit, gate.meter, tx.limits.timeFor(rateLimit, gate.meter)));
}

/**
 * As many of the first as the rates of their queue let start, and when the next may. They count. What is past its time does
 * not start.
 */
export async function withinRates<Row extends { cost: number | null; expires_at: number | null }>(
  tx: Tx,
  queue: Queue,
  line: Row[],
  room: number,
): Promise<{ taken: Row[]; next: number }> {
  const gate = await tx.limits.gate(queue);
  const { rateLimit } = queue.policy;
  const first = line.slice(0, room);
  if (rateLimit.length === 0 && isEmpty(gate.meter)) return { taken: first, next: tx.now };
  const time = tx.limits.timeFor(rateLimit, gate.meter);
  for (const [index, { cost, expires_at: expiresAt }] of first.entries()) {
    if (expiresAt !== null && expiresAt <= tx.now) continue;
    const at = earliestStart(rateLimit, gate.meter, cost ?? 1, time);
    if (at > tx.now) return { taken: line.slice(0, index), next: at };
    gate.meter = spend(rateLimit, gate.meter, cost ?? 1, time);
    gate.changed = true;
  }
  const after = line[room];
  return { taken: first, next: after ? earliestStart(rateLimit, gate.meter, after.cost ?? 1, time) : tx.now };
}

export async function correctCost(
  tx: Tx,
  queue: Queue,
  groupKey: string | null,
  charge: Charge,
): Promise<void> {
  if (!queue.limited) return;
  const { rateLimit, groups } = queue.policy;
  const gate = await tx.limits.gate(queue);
  gate.meter = correct(rateLimit, gate.meter, charge, tx.limits.timeFor(rateLimit, gate.meter));
  gate.changed = true;
  if (givesBack(rateLimit, charge)) tx.batch.hintReady(queue);
  if (groupKey === null) return;
  const lane = await tx.limits.lane(queue, groupKey);
  lane.meter = correct(groups.rateLimit, lane.meter, charge, tx.limits.timeFor(groups.rateLimit, lane.meter));
  lane.changed = true;
}

/** For `delay` nothing of the queue starts. */
export async function holdQueue(tx: Tx, queue: Queue, delay: number): Promise<void> {
  const gate = await tx.limits.gate(queue);
  gate.heldUntil = Math.max(gate.heldUntil, tx.now + delay);
  gate.changed = true;
}

const INSERT_GATE = `INSERT INTO dibs.gate (queue) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM dibs.gate WHERE queue = $1)`;
const NEW_REVISION = `UPDATE dibs.queue SET revision = $1 WHERE id = $2`;

/** It is held back, and had no limits until now: from here on whoever claims from it, or touches its groups, has to ask. */
export async function makeLimited(tx: Tx, queue: Queue): Promise<void> {
  if (queue.limited) return;
  // Seldom news: that it comes to this shows before the batch begins, see exclusive.ts.
  tx.needExclusive();
  tx.send(NEW_REVISION, await tx.queues.nextRevision(), queue.id);
  putGate(tx, queue);
}

function putGate(tx: Tx, queue: Queue): void {
  tx.send(INSERT_GATE, queue.id);
  tx.queues.noteLimited(queue);
}

const COUNT_CLAIMS = `UPDATE dibs.claim SET counted = true WHERE queue = $1 AND NOT counted`;

/** Its policy is another one now. What was done while there were no such limits is brought into their books. */
export async function adoptLimits(tx: Tx, queue: Queue, before: Queue["policy"]): Promise<void> {
  const { policy } = queue;
  const governs = governsGroups(policy) && !governsGroups(before);
  const caps = policy.maxConcurrency !== null && before.maxConcurrency === null;
  const isFirst = !queue.limited && (governsGroups(policy) || isGated(policy));
  // Foreseen (exclusive.ts), but for a queue that is another one by now: others go by its having no limits until their commits.
  if (isFirst || caps || changesGroups(before, policy)) tx.needExclusive();
  tx.limits.reread();
  if (isFirst) putGate(tx, queue);
  if (governs) nameGroupsInLine(tx, queue);
  if (caps) tx.send(COUNT_CLAIMS, queue.id);
}

/** Its policy has limits, and not only a hold that may be over. */
export function isLimitedNow({ limited, policy }: Queue): boolean {
  return limited && (governsGroups(policy) || isGated(policy));
}

/** Who claims from more queues than these seldom needs most of their gates. */
const MOST_GATES = 8;

/**
 * The gates that the claims of a batch need: it waits for them before it begins. To find one taken and begin again costs two round
 * trips: three stores that shared one queue with limits drained it at 0.6 of the speed.
 */
export function gatesOf(tx: Tx, ops: readonly Op[]): number[] {
  if (!tx.queues.hasLimits) return [];
  const names = new Set(ops.flatMap((op) => (op.verb === "claim" ? op.queues : [])));
  const queues = [...names].flatMap((name) => tx.queues.named(name) ?? []).filter(isLimitedNow);
  return queues.length > MOST_GATES ? [] : queues.map(({ id }) => id);
}

const IS_OPEN = `
  SELECT 1 FROM dibs.gate
  WHERE ${newest("gate", "$1")} AND meter IS NULL AND wake_at IS NULL AND reviewed IS NULL AND coalesce(held_until, 0) <= $2
    AND NOT EXISTS (SELECT 1 FROM dibs.ready_sticky WHERE ready_sticky.queue = gate.queue OFFSET 0)`;

/** Its limits are things of the past: whoever claims from it need not ask any further. */
export async function hasNoLimits(tx: Tx, queue: Queue): Promise<boolean> {
  if (isLimitedNow(queue)) return false;
  tx.limits.flush();
  return (await tx.get(IS_OPEN, queue.id, tx.now)) !== undefined;
}
