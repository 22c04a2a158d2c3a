import {
  changesGate,
  changesGroups,
  groupOrder,
  maxInLine,
  type QueuePolicy,
} from "../../../core/queue/policy.ts";
import { earliestStart } from "../../../core/queue/rate.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { adoptLimits, roomOf } from "./gates.ts";
import { sinceFloor } from "../line/floors.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { fillLanes, type InLine, inLineOf, removeFromLine } from "./lane-line.ts";
import type { Lane, QueueGate } from "./limits.ts";
import type { Tx } from "../transaction/tx.ts";

/** What happens to the tasks of a queue when its policy changes. */

/**
 * Reviews each of its groups, in several batches if there are many. Until the last group was reviewed, no task of the
 * queue starts, so none starts under the old policy.
 */
export async function adoptPolicy(tx: Tx, queue: Queue, before: QueuePolicy): Promise<void> {
  await adoptLimits(tx, queue, before);
  const regroups = changesGroups(before, queue.policy);
  if (!regroups && !changesGate(before, queue.policy)) return;
  const gate = await tx.limits.gate(queue);
  if (regroups) gate.reviewed = "";
  await openGate(tx, queue, gate);
}

const DUE_GATES = `
  SELECT queue FROM dibs.gate WHERE wake_at <= $1 AND ${sinceFloor("gate", "wake_at")} ORDER BY queue`;

/** Opens the gates that are due, and continues reviews. Gates that other transactions hold are left to them. */
export async function openGates(tx: Tx): Promise<void> {
  for (const { queue: id } of await tx.all<{ queue: number }>(DUE_GATES, tx.now)) {
    const queue = tx.queues.ifAny(id);
    if (!queue || !(await tx.limits.tryToHold(queue))) continue;
    const gate = await tx.limits.gate(queue);
    // Another transaction has opened it meanwhile, and may have closed it again.
    if (gate.wakeAt !== null && gate.wakeAt <= tx.now) await openGate(tx, queue, gate);
  }
}

/** Hints as many ready tasks as may start. At least one: a claim that finds the gate closed sets the next wake time. */
async function openGate(tx: Tx, queue: Queue, gate: QueueGate): Promise<void> {
  if (gate.reviewed !== null) gate.reviewed = await review(tx, queue, gate.reviewed);
  if (gate.reviewed !== null) {
    tx.limits.wakeAt(gate, tx.now);
    tx.batch.noteDue(tx.now);
    tx.batch.noteMoreDue();
    return;
  }
  tx.limits.wakeAt(gate, null);
  const { ready } = await tx.counters.depth(queue);
  if (ready > 0) tx.batch.hintReady(queue, Math.min(ready, Math.max(1, await roomOf(tx, queue))));
}

const NEXT_LANES = `
  SELECT group_key FROM dibs.lane
  WHERE queue = $1 AND group_key > $2::text COLLATE "C" AND (holders > 0 OR EXISTS (
    SELECT 1 FROM dibs.waiting WHERE waiting.queue = lane.queue AND waiting.group_key = lane.group_key OFFSET 0))
  ORDER BY group_key LIMIT $3`;

/** Reviews the next groups that have heads or waiting tasks. Returns the last one, or null after all. */
async function review(tx: Tx, queue: Queue, after: string): Promise<string | null> {
  tx.limits.flush();
  const page = await tx.all<{ group_key: string }>(NEXT_LANES, queue.id, after, BOUNDS.sweep);
  const keys = page.map((row) => row.group_key);
  if (keys.length > 0) {
    const [lanes, rows] = await allAnswered([tx.limits.lanes(queue, keys), inLineOf(tx, queue, keys)]);
    const inLine = Map.groupBy(rows, ({ key }) => key);
    await removeFromLine(
      tx,
      queue,
      lanes.flatMap((lane) => excessOf(tx, lane, inLine.get(lane.key) ?? [])),
    );
    await fillLanes(tx, queue, keys);
  }
  return page.length < BOUNDS.sweep ? null : keys.at(-1)!;
}

/** Tasks in the line that the policy would not have promoted. */
function excessOf(tx: Tx, lane: Lane, inLine: InLine[]): InLine[] {
  const [first] = inLine.sort(groupOrder(lane.queue.policy));
  if (!first) return [];
  const { rateLimit } = lane.queue.policy.groups;
  const time = tx.limits.timeFor(rateLimit, lane.meter);
  const at = Math.max(lane.heldUntil, earliestStart(rateLimit, lane.meter, first.cost ?? 1, time));
  return inLine.slice(at > tx.now ? 0 : maxInLine(lane.queue.policy, lane.key, lane.holders - inLine.length));
}
