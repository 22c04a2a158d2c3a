import { type Allowance, allowanceOf } from "../../core/allowance.ts";
import { governsGroups, groupOrder, maxInLine } from "../../core/policy.ts";
import { correct, givesBack, type Meter, NO_METER, earliestStart, spend } from "../../core/rate.ts";
import { rankOf } from "../../core/task.ts";
import { BOUNDS } from "../../engine/engine.ts";
import type { Model, ModelQueue, ModelSession, ModelTask } from "./model.ts";

/** Who may stand in line, group by group, and how many of the line may start. */

/** What is counted of a group, or of a whole queue. */
export interface Gate {
  meter: Meter;
  /** Nothing starts before: somebody met a limit of somebody else's. */
  heldUntil: number;
  /** When somebody has to look whether more may start; null: other things will tell. */
  wakeAt: number | null;
}

export interface Lane extends Gate {
  /** Of the worker that had the last one, where groups are sticky. */
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

/** Those of a group that the others wait for: all but the ones that wait, and those that are not due. */
export function holders(model: Model, queue: string, key: string): ModelTask[] {
  return [...model.tasks.values()].filter(
    (task) => task.queue === queue && task.groupKey === key && task.blocksGroup,
  );
}

/** The first of a group that wait take their places in line, as many as may. */
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

/** Tasks of a group, in the order in which they get in line. */
export function inOrder(model: Model, queue: string, tasks: ModelTask[]): ModelTask[] {
  const compared = groupOrder(model.policy(queue));
  return tasks.toSorted((a, b) => compared({ rank: rankOf(a), pos: a.pos }, { rank: rankOf(b), pos: b.pos }));
}

/** When the next of a group may stand in line; null: not before another one of it has moved. */
function linesUpAt(model: Model, lane: Lane, task: ModelTask): number | null {
  const held = holders(model, task.queue, task.groupKey!);
  const inLine = held.filter(isInLine).length;
  const places = maxInLine(model.policy(task.queue), task.groupKey!, held.length - inLine);
  return inLine < places ? mayStartAt(model, lane, task) : null;
}

/** As far as time decides. */
export function mayStartAt(model: Model, lane: Lane, task: ModelTask): number {
  const { rateLimit } = model.policy(task.queue).groups;
  return Math.max(lane.heldUntil, earliestStart(rateLimit, lane.meter, costOf(task), model.now));
}

export function isInLine({ state }: ModelTask): boolean {
  return state === "ready";
}

/** Somebody has to look again then: the keeper of this process is told. */
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

/** The session that a task of a sticky group is kept for, if it lives and takes more. */
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

/** From when on it may start by the rates of its queue. */
export function startsAt(model: Model, { name, gate }: ModelQueue, task: ModelTask): number {
  return earliestStart(model.policy(name).rateLimit, gate.meter, costOf(task), model.now);
}

export function countStart(model: Model, { name, gate }: ModelQueue, task: ModelTask): void {
  gate.meter = spend(model.policy(name).rateLimit, gate.meter, costOf(task), model.now);
}

/** What an attempt really cost is known now. */
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

/** Those whose time has come, a bounded number. */
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

/** A group may have more than its head in line, and what it had there counts. */
export function isGoverned(model: Model, queue: string): boolean {
  return governsGroups(model.policy(queue));
}
