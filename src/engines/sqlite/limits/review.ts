import {
  changesGate,
  changesGroups,
  governsGroups,
  groupOrder,
  maxInLine,
  type QueuePolicy,
} from "../../../core/queue/policy.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import { type Gate, gateOf, hintLine, roomOf, saveGate, wakeGate } from "./gates.ts";
import { removeFromLine } from "./hold-back.ts";
import { type Lane, LaneChanges, mayStartAt } from "./lanes.ts";
import { raiseLanes } from "./move-lanes.ts";
import { COUNTED, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** What happens to the tasks of a queue when its policy changes. */

/**
 * Reviews each of its groups, in several batches if there are many. Until the last group was reviewed, no task of the
 * queue starts, so none starts under the old policy.
 */
export function adoptPolicy(tx: Tx, queue: Queue, before: QueuePolicy): void {
  if (governsGroups(queue.policy)) raiseLanes(tx, queue, COUNTED);
  const regroups = changesGroups(before, queue.policy);
  if (!regroups && !changesGate(before, queue.policy)) return;
  const gate = gateOf(tx, queue);
  if (regroups) gate.reviewed = "";
  openGate(tx, gate);
}

const OPENED = `SELECT queue FROM gate WHERE wake_at <= ? ORDER BY queue`;

/** Opens the gates that are due, and continues reviews. */
export function openGates(tx: Tx): void {
  for (const { queue } of tx.all<{ queue: number }>(OPENED, tx.now))
    openGate(tx, gateOf(tx, tx.queues.of(queue)));
}

/**
 * Hints as many ready tasks as may start, and at least one even if none may: the claim that it wakes finds the gate
 * closed, and sets the next wake time.
 */
function openGate(tx: Tx, gate: Gate): void {
  if (gate.reviewed !== null) gate.reviewed = review(tx, gate.queue, gate.reviewed);
  if (gate.reviewed === null) {
    gate.wakeAt = null;
    hintLine(tx, gate.queue, Math.max(1, roomOf(tx, gate)));
  } else {
    wakeGate(tx, gate, tx.now);
    tx.batch.noteDue(tx.now);
  }
  saveGate(tx, gate);
}

const NEXT_LANES = `
  SELECT group_key FROM lane
  WHERE queue = ? AND group_key > ? AND (coalesce(json_extract(state, '$.holders'), 1) > 0 OR EXISTS (
    SELECT 1 FROM waiting WHERE waiting.queue = lane.queue AND waiting.group_key = lane.group_key))
  ORDER BY group_key LIMIT 0 + ?`;

/**
 * Reviews the next groups that have heads or waiting tasks. Returns the last group of this page, or null if none is
 * left.
 */
function review(tx: Tx, queue: Queue, after: string): string | null {
  const page = tx.all<{ group_key: string }>(NEXT_LANES, queue.id, after, BOUNDS.sweep);
  const names = page.map(({ group_key: key }) => ({ queue, key }));
  const book = new LaneChanges(tx);
  book.open(names);
  const lanes = names.map(({ key }) => book.lane(queue, key));
  const excess = lanes.flatMap((lane) => excessOf(tx, lane));
  book.save();
  for (const seq of excess) removeFromLine(tx, seq);
  book.open(names);
  const opened = names.map(({ key }) => book.lane(queue, key));
  book.lookAhead(opened);
  for (const lane of opened) book.fill(lane);
  book.save();
  return page.length < BOUNDS.sweep ? null : page.at(-1)!.group_key;
}

const PLACE = `SELECT coalesce(pos, seq) AS pos, 0 - priority AS rank, cost FROM task WHERE seq = ?`;

/**
 * Tasks in the line that the new policy would not have promoted. This takes them out of the lane's count of heads; the
 * caller removes them from the line.
 */
function excessOf(tx: Tx, lane: Lane): number[] {
  const { queue, key, holders, line } = lane;
  const places = maxInLine(queue.policy, key, holders - line.length);
  const isTimed = queue.policy.groups.rateLimit.length > 0 || lane.heldUntil > tx.now;
  if (line.length === 0 || (line.length <= places && !isTimed)) return [];
  const inLine = line
    .map((seq) => ({ seq, ...tx.get<{ pos: number; rank: number; cost: number | null }>(PLACE, seq)! }))
    .sort(groupOrder(queue.policy));
  const isOpen = mayStartAt(tx, lane, inLine[0]!.cost ?? 1) <= tx.now;
  const excess = inLine.slice(isOpen ? places : 0).map(({ seq }) => seq);
  lane.holders -= excess.length;
  return excess;
}
