import { type Allowance, allowanceOf } from "../../../core/queue/allowance.ts";
import {
  type Charge,
  correct,
  givesBack,
  isEmpty,
  type Meter,
  NO_METER,
  earliestStart,
  roomFor,
  spend,
} from "../../../core/queue/rate.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Gates: how many tasks of a queue may start now. Claims, settlements and the sweep call it. */

/** How many tasks of a queue's line may start. */
export interface Gate {
  queue: Queue;
  meter: Meter;
  /** No task starts before: a hold. */
  heldUntil: number;
  /** When to check again whether more may start; null: another event will tell. */
  wakeAt: number | null;
  /** The last group that was reviewed since the policy changed; null: all were. See review.ts. */
  reviewed: string | null;
  row: GateRow;
}

interface GateRow {
  meter: string | null;
  held_until: number | null;
  wake_at: number | null;
  reviewed: string | null;
}

const NO_GATE: GateRow = { meter: null, held_until: null, wake_at: null, reviewed: null };
const GATE = `SELECT meter, held_until, wake_at, reviewed FROM gate WHERE queue = ?`;
const SAVE_GATE = `INSERT OR REPLACE INTO gate (queue, meter, held_until, wake_at, reviewed) VALUES (?, ?, ?, ?, ?)`;

export function gateOf(tx: Tx, queue: Queue): Gate {
  const row = queue.gate ? tx.get<GateRow>(GATE, queue.id)! : NO_GATE;
  const { meter, held_until: heldUntil, wake_at: wakeAt, reviewed } = row;
  return {
    queue,
    meter: meter === null ? NO_METER : (JSON.parse(meter) as Meter),
    heldUntil: heldUntil ?? 0,
    wakeAt,
    reviewed,
    row,
  };
}

export function saveGate(tx: Tx, { queue, meter, heldUntil, wakeAt, reviewed, row }: Gate): void {
  const text = isEmpty(meter) ? null : JSON.stringify(meter);
  const held = heldUntil > tx.now ? heldUntil : null;
  const isSame = row.meter === text && row.held_until === held && row.wake_at === wakeAt;
  if (isSame && row.reviewed === reviewed) return;
  tx.run(SAVE_GATE, queue.id, text, held, wakeAt, reviewed);
  if (queue.gate) return;
  queue.gate = true;
  tx.queues.store(queue);
}

/** Sets when to check again, and hints it to the housekeeper of this process. */
export function wakeGate(tx: Tx, gate: Gate, at: number): void {
  if (gate.wakeAt === at) return;
  gate.wakeAt = at;
  tx.batch.hintDue(at);
}

/** No task of the queue starts for `delay`. */
export function holdGate(tx: Tx, queue: Queue, delay: number): void {
  const gate = gateOf(tx, queue);
  gate.heldUntil = Math.max(gate.heldUntil, tx.now + delay);
  saveGate(tx, gate);
}

export function allowanceFor(tx: Tx, { queue, heldUntil }: Gate): Allowance {
  return allowanceOf(queue.policy, heldUntil, () => tx.counters.claimed(queue), tx.now);
}

/** When it may start by the rates of its queue. */
export function opensFor(tx: Tx, { queue, meter }: Gate, cost: number): number {
  return earliestStart(queue.policy.rateLimit, meter, cost, tx.now);
}

export function countStart(tx: Tx, gate: Gate, cost: number): void {
  gate.meter = spend(gate.queue.policy.rateLimit, gate.meter, cost, tx.now);
}

/** The real cost of an attempt is known now. */
export function correctGate(tx: Tx, queue: Queue, charge: Charge): void {
  const { rateLimit } = queue.policy;
  const gate = gateOf(tx, queue);
  gate.meter = correct(rateLimit, gate.meter, charge, tx.now);
  saveGate(tx, gate);
  if (givesBack(rateLimit, charge)) tx.batch.hintReady(queue);
}

const READY = [
  `SELECT 1 FROM ready WHERE queue = ? LIMIT 1`,
  `SELECT 1 FROM ready_elsewhere WHERE queue = ? LIMIT 1`,
  `SELECT 1 FROM ready_sticky WHERE queue = ? LIMIT 1`,
] as const;

export function isAnyReady(tx: Tx, queue: Queue): boolean {
  return READY.some((sql) => tx.get(sql, queue.id) !== undefined);
}

/** Hints ready tasks, but no more than may start. */
export function hintLine(tx: Tx, queue: Queue, most = Number.POSITIVE_INFINITY): void {
  const { ready } = tx.counters.depth(queue);
  if (ready > 0) tx.batch.hintReady(queue, Math.min(ready, most));
}

/** How many tasks of its line may start now, at most. */
export function roomOf(tx: Tx, gate: Gate): number {
  return Math.min(allowanceFor(tx, gate).room, roomFor(gate.queue.policy.rateLimit, gate.meter, tx.now));
}

const DELETE_GATE = `DELETE FROM gate WHERE queue = ? AND meter IS NULL AND wake_at IS NULL AND reviewed IS NULL`;

/** Deletes gates that store nothing any more: a queue without limits need not read its gate. */
export function pruneGates(tx: Tx): void {
  for (const queue of tx.queues.all) {
    if (!queue.gate || gateOf(tx, queue).heldUntil > tx.now) continue;
    if (tx.run(DELETE_GATE, queue.id) === 0) continue;
    queue.gate = false;
    tx.queues.store(queue);
  }
}
