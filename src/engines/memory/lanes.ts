import { type Allowance, allowanceOf } from "../../core/queue/allowance.ts";
import { governsGroups, groupOrder, maxInLine } from "../../core/queue/policy.ts";
import { correct, givesBack, type Meter, NO_METER, earliestStart, spend } from "../../core/queue/rate.ts";
import { rankOf } from "../../core/task/task.ts";
import { BOUNDS } from "../../engine/bounds.ts";
import type { Model, ModelQueue, ModelSession, ModelTask } from "./model.ts";

/** How many tasks of a group may be in the line, and how many tasks of the line may start. */

/** The limits' state of a group or of a whole queue. */
export interface Gate {
  meter: Meter;
  /** End of a hold: no task starts before, because a handler met a limit of another service. */
  heldUntil: number;
  /** When a sweep must check whether more may start. Null: no time does, only another transition. */
  wakeAt: number | null;
}

export interface Lane extends Gate {
  /** The session that had the last task of the group, if groups are sticky. */
  session: number | null;
}

export function newGate(): Gate {
  return { meter: NO_METER, heldUntil: 0, wakeAt: null };
}

export function laneOf(model: Model, queue: string, key: string): Lane {
  const { lanes } = model.queue(queue);
  let lane = lanes.get(key);
  if (!lane) lanes.set(key, (lane = { ...newGate(), session: null }));
  return lane;
}

/** The heads of a group: the tasks in the line or claimed, behind which the others wait. */
export function holders(model: Model, queue: string, key: string): ModelTask[] {
  return [...model.tasks.values()].filter(
    (task) => task.queue === queue && task.groupKey === key && task.blocksGroup,
  );
}

/** Promotes the first waiting tasks of a group, as many as its limits allow. */
export function fill(model: Model, queue: string, key: string, lineUp: (task: ModelTask) => void): void {
  const lane = laneOf(model, queue, key);
  for (;;) {
    const waiting = model.tasksOf(queue, "waiting").filter((task) => task.groupKey === key);
    const [next] = inOrder(model, queue, waiting);
    const at = next ? linesUpAt(model, lane, next) : null;
    if (!next || at === null || at > model.now) return wakeAt(model, lane, at);
    next.blocksGroup = true;
    next.place = model.policy(queue).groups.fair ? ++model.seq : next.pos;
    lineUp(next);
  }
}

/** Tasks of a group, in the order in which they are promoted. */
export function inOrder(model: Model, queue: string, tasks: ModelTask[]): ModelTask[] {
  const compared = groupOrder(model.policy(queue));
  return tasks.toSorted((a, b) => compared({ rank: rankOf(a), pos: a.pos }, { rank: rankOf(b), pos: b.pos }));
}

/** When the next task of a group may be promoted. Null: only after another task of the group changed its state. */
function linesUpAt(model: Model, lane: Lane, task: ModelTask): number | null {
  const held = holders(model, task.queue, task.groupKey!);
  const inLine = held.filter(isInLine).length;
  const places = maxInLine(model.policy(task.queue), task.groupKey!, held.length - inLine);
  return inLine < places ? mayStartAt(model, lane, task) : null;
}

/** When the hold and the rates of its group let a task start. */
export function mayStartAt(model: Model, lane: Lane, task: ModelTask): number {
  const { rateLimit } = model.policy(task.queue).groups;
  return Math.max(lane.heldUntil, earliestStart(rateLimit, lane.meter, costOf(task), model.now));
}

export function isInLine({ state }: ModelTask): boolean {
  return state === "ready";
}

/** Sets when a sweep must check the gate again, and hints at it, so that housekeeping sets its timer. */
export function wakeAt(model: Model, gate: Gate, at: number | null): void {
  if (gate.wakeAt === at) return;
  gate.wakeAt = at;
  if (at !== null) model.hint.due = Math.min(model.hint.due ?? Number.POSITIVE_INFINITY, at - model.now);
}

export function costOf(task: ModelTask): number {
  return task.cost ?? 1;
}

/** A task of a group was claimed. */
export function start(model: Model, task: ModelTask, session: ModelSession | null): void {
  const { groups } = model.policy(task.queue);
  const lane = laneOf(model, task.queue, task.groupKey!);
  lane.meter = spend(groups.rateLimit, lane.meter, costOf(task), model.now);
  lane.session = groups.sticky && session ? session.id : null;
}

/** The session that a task of a sticky group is reserved for, if it is live and serves the queue. */
export function ownerOf(model: Model, task: ModelTask): number | null {
  if (task.groupKey === null || !model.policy(task.queue).groups.sticky) return null;
  const { session: id } = laneOf(model, task.queue, task.groupKey);
  const session = id === null ? undefined : model.sessions.get(id);
  return session && model.serves(session, task.queue) ? session.id : null;
}

export function allowanceFor(model: Model, { name, gate }: ModelQueue): Allowance {
  return allowanceOf(model.policy(name), gate.heldUntil, () => runningOf(model, name), model.now);
}

export function runningOf(model: Model, queue: string): number {
  return [...model.tasks.values()].filter((task) => task.queue === queue && task.claim).length;
}

/** When the rates of its queue let a task start. */
export function startsAt(model: Model, { name, gate }: ModelQueue, task: ModelTask): number {
  return earliestStart(model.policy(name).rateLimit, gate.meter, costOf(task), model.now);
}

export function countStart(model: Model, { name, gate }: ModelQueue, task: ModelTask): void {
  gate.meter = spend(model.policy(name).rateLimit, gate.meter, costOf(task), model.now);
}

/** Corrects the meters: the settlement said what the attempt really cost. */
export function correctCost(model: Model, task: ModelTask, spent: number): void {
  const { rateLimit, groups } = model.policy(task.queue);
  const { gate } = model.queue(task.queue);
  const charge = { cost: costOf(task), spent, startedAt: task.claim!.startedAt };
  gate.meter = correct(rateLimit, gate.meter, charge, model.now);
  if (givesBack(rateLimit, charge)) model.hintReady(task.queue);
  if (task.groupKey === null) return;
  const lane = laneOf(model, task.queue, task.groupKey);
  lane.meter = correct(groups.rateLimit, lane.meter, charge, model.now);
}

/** Lanes whose wake time has come, at most BOUNDS.sweep. */
export function dueLanes(model: Model): { queue: string; key: string }[] {
  return [...model.queues.values()]
    .flatMap(({ name, lanes }) => [...lanes].map(([key, lane]) => ({ queue: name, key, at: lane.wakeAt })))
    .filter(({ at }) => at !== null && at <= model.now)
    .sort((a, b) => a.at! - b.at! || compare(a.queue, b.queue) || compare(a.key, b.key))
    .slice(0, BOUNDS.sweep);
}

export function compare(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

export function wakeTimes(model: Model): number[] {
  const gates = [...model.queues.values()].flatMap(({ gate, lanes }) => [gate, ...lanes.values()]);
  return gates.flatMap(({ wakeAt }) => wakeAt ?? []);
}

/** Whether groups have limits of their own: several heads, rates or fair rotation. */
export function isGoverned(model: Model, queue: string): boolean {
  return governsGroups(model.policy(queue));
}
