import { changesGate, changesGroups, maxInLine, type QueuePolicy } from "../../core/policy.ts";
import { roomFor } from "../../core/rate.ts";
import { BOUNDS } from "../../engine/engine.ts";
import { allowanceFor, compare, holders, inOrder, isInLine, laneOf, mayStartAt, wakeAt } from "./lanes.ts";
import { fillLane, removeFromLine } from "./line.ts";
import type { Model, ModelQueue } from "./model.ts";

/** What becomes of the tasks of a queue whose policy is another one now. */

/**
 * Each of its groups is looked at, in as many pieces of work as it takes: until the last of them has been, nothing of the
 * queue starts. So nothing starts by the old policy.
 */
export function adoptPolicy(model: Model, queue: ModelQueue, before: QueuePolicy): void {
  const policy = model.policy(queue.name);
  const regroups = changesGroups(before, policy);
  if (regroups) queue.reviewed = "";
  if (regroups || changesGate(before, policy)) openGate(model, queue);
}

/** Those of which more may start by now, or whose groups are to be looked at. */
export function openGates(model: Model): void {
  for (const queue of model.queues.values())
    if (queue.gate.wakeAt !== null && queue.gate.wakeAt <= model.now) openGate(model, queue);
}

/** Who waits is told, but no more than may start. One at least: who finds the gate closed leaves word when to look again. */
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

/** The next groups, in their order: those that somebody holds or waits in. */
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

/** Those that would not have come up by the policy leave the line; the others keep their places. */
function pullBackExcess(model: Model, queue: string, key: string): void {
  const held = holders(model, queue, key);
  const inLine = inOrder(model, queue, held.filter(isInLine));
  const places = maxInLine(model.policy(queue), key, held.length - inLine.length);
  const [first] = inLine;
  const isOpen = first && mayStartAt(model, laneOf(model, queue, key), first) <= model.now;
  for (const task of inLine.slice(isOpen ? places : 0)) removeFromLine(task);
}
