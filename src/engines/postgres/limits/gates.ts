import { type Allowance, allowanceOf } from "../../../core/queue/allowance.ts";
import { changesGroups, governsGroups, isGated } from "../../../core/queue/policy.ts";
import {
  type Charge,
  correct,
  givesBack,
  isEmpty,
  earliestStart,
  roomFor,
  spend,
} from "../../../core/queue/rate.ts";
import type { Op } from "../../../engine/engine.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { aboveFloor } from "../line/floors.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { nameGroupsInLine } from "../line/enter-line.ts";
import { newest } from "../statements/newest.ts";
import { numbers } from "../statements/text.ts";
import type { QueueGate } from "./limits.ts";
import type { Tx } from "../transaction/tx.ts";

/** How many tasks of a queue may start now, and when a queue gets a gate. Claims and settlements call it. */

const RUNNING = `SELECT count(*)::int4 AS running FROM dibs.claim WHERE queue = $1 AND counted`;
const HAS_LINE = `
  SELECT EXISTS (SELECT 1 FROM dibs.ready WHERE queue = $1 AND ${aboveFloor("$1")})
    OR EXISTS (SELECT 1 FROM dibs.ready_elsewhere WHERE queue = $1 AND ${aboveFloor("$1", "ready_elsewhere")})
    OR EXISTS (SELECT 1 FROM dibs.ready_sticky WHERE queue = $1) AS some`;

/** Takes the queue's gate until the commit. */
export async function allowanceFor(tx: Tx, queue: Queue): Promise<{ gate: QueueGate; allowance: Allowance }> {
  await tx.limits.hold(queue);
  const [gate, claims] = await allAnswered([
    tx.limits.gate(queue),
    queue.policy.maxConcurrency === null ? null : tx.get<{ running: number }>(RUNNING, queue.id),
  ]);
  return { gate, allowance: allowanceOf(queue.policy, gate.heldUntil, () => claims!.running, tx.now) };
}

// One that is reviewed has to be woken.
const WITH_TASKS = `
  SELECT queue FROM unnest($1::int4[]) AS wanted (queue)
  WHERE EXISTS (SELECT 1 FROM dibs.ready WHERE ready.queue = wanted.queue AND ${aboveFloor("wanted.queue")})
    OR EXISTS (SELECT 1 FROM dibs.ready_elsewhere WHERE ready_elsewhere.queue = wanted.queue AND ${aboveFloor("wanted.queue", "ready_elsewhere")})
    OR EXISTS (SELECT 1 FROM dibs.ready_sticky WHERE ready_sticky.queue = wanted.queue OFFSET 0)
    OR EXISTS (SELECT 1 FROM dibs.gate WHERE ${newest("gate", "wanted.queue")} AND gate.reviewed IS NOT NULL)`;

/** The queues that a claim has to look into, each behind its gate. */
export async function withTasks(tx: Tx, queues: readonly Queue[]): Promise<ReadonlySet<Queue>> {
  const rows = await tx.rows<[queue: number]>(WITH_TASKS, numbers(queues.map(({ id }) => id)));
  return new Set(rows.map(([id]) => tx.queues.of(id)));
}

export async function isAnyReady(tx: Tx, queue: Queue): Promise<boolean> {
  return (await tx.get<{ some: boolean }>(HAS_LINE, queue.id))!.some;
}

/** How many tasks of its line may start now, at most. */
export async function roomOf(tx: Tx, queue: Queue): Promise<number> {
  const { gate, allowance } = await allowanceFor(tx, queue);
  const { rateLimit } = queue.policy;
  return Math.min(allowance.room, roomFor(rateLimit, gate.meter, tx.limits.timeFor(rateLimit, gate.meter)));
}

/**
 * The first tasks of the line that the queue's rates allow, and when the next may start. It charges them to the meter.
 * Expired tasks do not start.
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
  if (givesBack(rateLimit, charge)) tx.batch.hintReady(queue);
  if (groupKey === null) return;
  const lane = await tx.limits.lane(queue, groupKey);
  lane.meter = correct(groups.rateLimit, lane.meter, charge, tx.limits.timeFor(groups.rateLimit, lane.meter));
}

/** No task of the queue starts for `delay`. */
export async function holdQueue(tx: Tx, queue: Queue, delay: number): Promise<void> {
  const gate = await tx.limits.gate(queue);
  gate.heldUntil = Math.max(gate.heldUntil, tx.now + delay);
}

const INSERT_GATE = `INSERT INTO dibs.gate (queue) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM dibs.gate WHERE queue = $1)`;
const NEW_REVISION = `UPDATE dibs.queue SET revision = $1 WHERE id = $2`;

/** A hold is set in a queue without limits: from now on claims and changes of its groups need its gate. */
export async function makeLimited(tx: Tx, queue: Queue): Promise<void> {
  if (queue.limited) return;
  // Rare: batches that set a first hold are exclusive from the beginning (exclusive.ts).
  tx.needExclusive();
  tx.send(NEW_REVISION, await tx.queues.nextRevision(), queue.id);
  putGate(tx, queue);
}

function putGate(tx: Tx, queue: Queue): void {
  tx.send(INSERT_GATE, queue.id);
  tx.queues.noteLimited(queue);
}

const COUNT_CLAIMS = `UPDATE dibs.claim SET counted = true WHERE queue = $1 AND NOT counted`;

/**
 * The queue's policy has changed. Rows of its line and claims that exist already get the values that the new limits
 * need.
 */
export async function adoptLimits(tx: Tx, queue: Queue, before: Queue["policy"]): Promise<void> {
  const { policy } = queue;
  const governs = governsGroups(policy) && !governsGroups(before);
  const caps = policy.maxConcurrency !== null && before.maxConcurrency === null;
  const isFirst = !queue.limited && (governsGroups(policy) || isGated(policy));
  // exclusive.ts has decided this before, unless the queue changed meanwhile. Other batches count nothing for it
  // until they commit.
  if (isFirst || caps || changesGroups(before, policy)) tx.needExclusive();
  tx.limits.reread();
  if (isFirst) putGate(tx, queue);
  if (governs) nameGroupsInLine(tx, queue);
  if (caps) tx.send(COUNT_CLAIMS, queue.id);
}

/** Its policy has limits. A hold alone does not count. */
export function isLimitedNow({ limited, policy }: Queue): boolean {
  return limited && (governsGroups(policy) || isGated(policy));
}

/** A claim on more queues than this rarely needs all their gates. */
const MOST_GATES = 8;

/**
 * The gates that the claims of a batch need; it waits for them before it begins. Without this a batch that finds one
 * taken starts again, for two round trips: three stores that shared one queue with limits drained it at 0.6 of the
 * speed.
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

/** The queue had limits, and none applies any more: claims may take the fast path. */
export async function hasNoLimits(tx: Tx, queue: Queue): Promise<boolean> {
  if (isLimitedNow(queue)) return false;
  tx.limits.flush();
  return (await tx.get(IS_OPEN, queue.id, tx.now)) !== undefined;
}
