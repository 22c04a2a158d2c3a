import { fitting } from "../../core/answer/answer-size.ts";
import {
  type ChildEnd,
  type ChildRecord,
  type ChildTask,
  abandonsChildren,
  abandonsWhenRemoved,
  keepsChildren,
  shownName,
  sizeOfChild,
  stateOnceRemoved,
} from "../../core/handler/children.ts";
import { awaitedBy } from "../../core/handler/children-signal.ts";
import { type EndState, isEnd, type TaskRecord } from "../../core/task/task.ts";
import type { Verbs } from "../../engine/engine.ts";
import type { Model, ModelChild, ModelTask } from "./model.ts";

/** The verb `children`, and what the ends of parents and children mean for each other. The verb `spawn`: spawn.ts. */

/** The children of a task, in the order of their numbers. */
export function familyOf(model: Model, id: string): ModelChild[] {
  return model.families.get(id) ?? [];
}

/** The state of a child, whose task may have been removed. */
export function stateOf(model: Model, id: string): ChildRecord["state"] {
  return (model.tasks.get(id) ?? childOf(model, id)!).state!;
}

function childOf(model: Model, id: string): ModelChild | undefined {
  return [...model.families.values()].flat().find((child) => child.id === id);
}

/** A task was added as a child. */
export function joinFamily(model: Model, task: ModelTask, { parent, n, name }: ChildTask["childOf"]): void {
  const { id, queue, createdAt } = task;
  task.child = {
    ...{ id, queue, createdAt, parent, n, name },
    ...{ state: null, endedAt: null, result: null, error: null },
  };
  model.families.set(parent, [...familyOf(model, parent), task.child]);
}

/** A task has ended. If it is a child, its parent may wait for that: line.ts wakes it. */
export function endChild(model: Model, { child }: ModelTask, state: EndState): void {
  if (!child) return;
  child.state = state;
  child.endedAt = model.now;
  model.relieved.push(child.parent);
}

/** A task is removed. If it is a child, its record keeps its end. */
export function loseChild(model: Model, task: ModelTask): void {
  const { child } = task;
  if (!child) return;
  child.result = task.result;
  child.error = task.error;
  if (child.state === null) endChild(model, task, stateOnceRemoved(null));
}

/** A child that had ended runs again. */
export function reviveChild({ child }: ModelTask): void {
  if (child) Object.assign(child, { state: null, endedAt: null, result: null, error: null });
}

/** Whether one of the awaited children has not ended. */
export function awaitsChildren(model: Model, id: string, signal: string): boolean {
  const awaited = awaitedBy(signal);
  return familyOf(model, id).some(({ n, state }) => state === null && awaited.has(n));
}

/** The task has ended. */
export function endParent(model: Model, { id }: ModelTask, state: EndState): void {
  if (abandonsChildren(state)) abandon(model, id);
}

/** A cancel was requested, and its worker has not let go of it. */
export function abandon(model: Model, id: string): void {
  for (const child of familyOf(model, id)) if (child.state === null) model.abandoned.push(child.id);
}

/** The task is removed, and with it what is known of its children. */
export function loseFamily(model: Model, { id, state }: ModelTask): void {
  if (abandonsWhenRemoved(isEnd(state) ? state : null)) abandon(model, id);
  dissolve(model, id);
}

/** The task begins again without the children that it has spawned. */
export function forgetChildren(model: Model, { id }: ModelTask): void {
  abandon(model, id);
  dissolve(model, id);
}

/** A task that has ended runs again. */
export function reviveParent(model: Model, task: ModelTask, fresh: boolean): void {
  if (!keepsChildren({ state: task.state, fresh })) forgetChildren(model, task);
}

function dissolve(model: Model, id: string): void {
  for (const child of familyOf(model, id)) {
    const task = model.tasks.get(child.id);
    if (task) task.child = null;
  }
  model.families.delete(id);
}

export function children(
  model: Model,
  { id, after = 0, limit, ends }: Verbs["children"]["in"],
): {
  children: (ChildRecord | ChildEnd)[];
  next: number | null;
} {
  model.task(id);
  const rest = familyOf(model, id).filter(({ n }) => n > after);
  const rows = rest.slice(0, limit).map((child) => describe(model, child, ends));
  const page = fitting(rows, sizeOfChild);
  return { children: page, next: page.length < rest.length ? page.at(-1)!.n : null };
}

function describe(model: Model, child: ModelChild, ends?: true): ChildRecord | ChildEnd {
  const { id, queue, n, name, createdAt, endedAt } = child;
  const task = model.tasks.get(id);
  const record = { id, queue, n, name: shownName(name), state: stateOf(model, id), createdAt, endedAt };
  if (!ends) return record;
  const { result, error } = task ?? child;
  const cause = error && { name: error.name, message: error.message, stack: error.stack };
  return { ...record, result, error: cause };
}

/** What `get` shows of a task's relatives. */
export function relativesOf(model: Model, { id, child }: ModelTask): Pick<TaskRecord, "parent" | "children"> {
  const family = familyOf(model, id);
  const pending = family.filter(({ state }) => state === null).length;
  return {
    ...(child && { parent: { id: child.parent, queue: model.task(child.parent).queue } }),
    ...(family.length > 0 && { children: { total: family.length, pending } }),
  };
}
