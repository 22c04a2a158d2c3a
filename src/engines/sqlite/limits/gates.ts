import { type Allowance, allowanceOf } from "../../../core/allowance.ts";
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
} from "../../../core/rate.ts";
import type { Queue, Tx } from "../transaction/tx.ts";

/** Gates: how many tasks of a queue may start now. Claims, settlements and the sweep call it. */

/** How many of a queue's line may start. */
export interface Gate {
  queue: Queue;
  meter: Meter;
  /** Nothing starts before: somebody met a limit of somebody else's. */
  heldUntil: number;
  /** When somebody has to look whether more may start; null: other things will tell. */
  wakeAt: number | null;
  /** Up to which group they have been looked at since their policy was changed; null: all of them. See review.ts. */
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
  tx.storeQueue(queue);
}

/** Somebody has to look again then: the keeper of this process is told. */
export function wakeGate(tx: Tx, gate: Gate, at: number): void {
  if (gate.wakeAt === at) return;
  gate.wakeAt = at;
  tx.hintDue(at);
}

/** For `delay` none of the queue starts. */
export function holdGate(tx: Tx, queue: Queue, delay: number): void {
  const gate = gateOf(tx, queue);
  gate.heldUntil = Math.max(gate.heldUntil, tx.now + delay);
  saveGate(tx, gate);
}

export function allowanceFor(tx: Tx, { queue, heldUntil }: Gate): Allowance {
  return allowanceOf(queue.policy, heldUntil, () => tx.claimedOf(queue), tx.now);
}

/** From when on it may start by the rates of its queue. */
export function opensFor(tx: Tx, { queue, meter }: Gate, cost: number): number {
  return earliestStart(queue.policy.rateLimit, meter, cost, tx.now);
}

export function countStart(tx: Tx, gate: Gate, cost: number): void {
  gate.meter = spend(gate.queue.policy.rateLimit, gate.meter, cost, tx.now);
}

/** What an attempt really cost is known now. */
export function correctGate(tx: Tx, queue: Queue, charge: Charge): void {
  const { rateLimit } = queue.policy;
  const gate = gateOf(tx, queue);
  gate.meter = correct(rateLimit, gate.meter, charge, tx.now);
  saveGate(tx, gate);
  if (givesBack(rateLimit, charge)) tx.hintReady(queue);
}

const READY = [
  `SELECT 1 FROM ready WHERE queue = ? LIMIT 1`,
  `SELECT 1 FROM ready_elsewhere WHERE queue = ? LIMIT 1`,
  `SELECT 1 FROM ready_sticky WHERE queue = ? LIMIT 1`,
] as const;

export function isAnyReady(tx: Tx, queue: Queue): boolean {
  return READY.some((sql) => tx.get(sql, queue.id) !== undefined);
}

/** Somebody is told of what stands in line: of no more than may start, for all that is known. */
export function hintLine(tx: Tx, queue: Queue, most = Number.POSITIVE_INFINITY): void {
  const { ready } = tx.depth(queue);
  if (ready > 0) tx.hintReady(queue, Math.min(ready, most));
}

/** How many of its line may start at this moment, at most. */
export function roomOf(tx: Tx, gate: Gate): number {
  return Math.min(allowanceFor(tx, gate).room, roomFor(gate.queue.policy.rateLimit, gate.meter, tx.now));
}

const DELETE_GATE = `DELETE FROM gate WHERE queue = ? AND meter IS NULL AND wake_at IS NULL AND reviewed IS NULL`;

/** Those that remember nothing any more: a queue without limits need not look at its gate. */
export function pruneGates(tx: Tx): void {
  for (const queue of tx.queues) {
    if (!queue.gate || gateOf(tx, queue).heldUntil > tx.now) continue;
    if (tx.run(DELETE_GATE, queue.id) === 0) continue;
    queue.gate = false;
    tx.storeQueue(queue);
  }
}
