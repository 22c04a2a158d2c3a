import { changesGate, changesGroups, maxInLine, type QueuePolicy } from "../../core/queue/policy.ts";
import { roomFor } from "../../core/queue/rate.ts";
import { BOUNDS } from "../../engine/bounds.ts";
import { allowanceFor, compare, holders, inOrder, isInLine, laneOf, mayStartAt, wakeAt } from "./lanes.ts";
import { fillLane, removeFromLine } from "./line.ts";
import type { Model, ModelQueue } from "./model.ts";

/** Applies a changed policy to the groups of a queue. */

/**
 * A changed policy of groups is applied to each group, a bounded number at a time. No task of the queue starts before the
 * last group was reviewed, so none starts by the old policy.
 */
export function adoptPolicy(model: Model, queue: ModelQueue, before: QueuePolicy): void {
  const policy = model.policy(queue.name);
  const regroups = changesGroups(before, policy);
  if (regroups) queue.reviewed = "";
  if (regroups || changesGate(before, policy)) openGate(model, queue);
}

/** Gates whose wake time has come: more tasks may start, or more groups must be reviewed. */
export function openGates(model: Model): void {
  for (const queue of model.queues.values())
    if (queue.gate.wakeAt !== null && queue.gate.wakeAt <= model.now) openGate(model, queue);
}

/** Hints at as many tasks as may start. At least one: a claim that finds the gate closed sets its wake time. */
function openGate(model: Model, queue: ModelQueue): void {
  if (queue.reviewed !== null) review(model, queue, queue.reviewed);
  if (queue.reviewed !== null) return wakeAt(model, queue.gate, model.now);
  queue.gate.wakeAt = null;
  const { name, gate } = queue;
  const room = Math.min(
    allowanceFor(model, queue).room,
    roomFor(model.policy(name).rateLimit, gate.meter, model.now),
  );
  model.hintReady(name, Math.min(model.tasksOf(name, "ready").length, Math.max(1, room)));
}

/** Reviews the next groups, in the order of their keys: those with a head or a waiting task. */
function review(model: Model, queue: ModelQueue, after: string): void {
  const keys = [...model.tasks.values()]
    .filter((task) => task.queue === queue.name && task.groupKey !== null && task.groupKey > after)
    .filter((task) => task.blocksGroup || task.state === "waiting")
    .map(({ groupKey }) => groupKey!);
  const page = [...new Set(keys)].sort(compare).slice(0, BOUNDS.sweep);
  for (const key of page) {
    pullBackExcess(model, queue.name, key);
    fillLane(model, queue.name, key);
  }
  queue.reviewed = page.length < BOUNDS.sweep ? null : page.at(-1)!;
}

/** Tasks that the policy would not promote leave the line. The others keep their positions. */
function pullBackExcess(model: Model, queue: string, key: string): void {
  const held = holders(model, queue, key);
  const inLine = inOrder(model, queue, held.filter(isInLine));
  const places = maxInLine(model.policy(queue), key, held.length - inLine.length);
  const [first] = inLine;
  const isOpen = first && mayStartAt(model, laneOf(model, queue, key), first) <= model.now;
  for (const task of inLine.slice(isOpen ? places : 0)) removeFromLine(task);
}
