import { ROW_BYTES, sizeOfBody, sizeOfError } from "../answer/answer-size.ts";
import { DibsError, invalid } from "../errors/errors.ts";
import { LIMITS } from "../input/limits.ts";
import type { QueuePolicy } from "../queue/policy.ts";
import { show } from "../errors/show.ts";
import type { AddedTask, Body, EndState, NewTask, TaskError, TaskState } from "../task/task.ts";

/**
 * Children: tasks that a handler adds at once with `task.spawn()`, and whose results `task.waitForChildren()` returns. A
 * child belongs to the task that spawned it (docs/decisions/0036). The engines share these rules.
 *
 * A spawn is a step: the parent stores a step of the kind `child` with the number of the child, so that another attempt
 * gets the same child. The relation itself is a row of the table `child`, written under the parent's claim.
 */

/** What a handler spawns, under a name that tells its children apart. */
export interface NewChild {
  name: string;
  task: NewTask;
}

/** A task that an engine adds as a child. No client can send this field: broker/check.ts. */
export interface ChildTask extends NewTask {
  childOf: { parent: string; n: number; name: string };
}

export function isChild(task: object): task is ChildTask {
  return "childOf" in task;
}

/** `existing`: it was spawned before, under this name. */
export interface SpawnedTask extends AddedTask {
  /** Counts the children of a task, from 1. */
  n: number;
}

/** A child, as its parent's reader sees it. */
export interface ChildRecord {
  id: string;
  queue: string;
  n: number;
  /** Null: told apart by the order of the spawns. */
  name: string | null;
  state: TaskState;
  createdAt: number;
  endedAt: number | null;
}

/** A child with its result, for the holder of the parent. */
export interface ChildEnd extends ChildRecord {
  result: Body | null;
  /** Of a dead child. */
  error: TaskError | null;
}

/** The size of a child in an answer. */
export function sizeOfChild(row: ChildRecord | ChildEnd): number {
  if (!("result" in row)) return ROW_BYTES;
  return ROW_BYTES + sizeOfBody(row.result) + sizeOfError(row.error);
}

/** How many children a task has, and how many of them have not ended. */
export interface ChildCounts {
  total: number;
  pending: number;
}

/** The task that spawned a child. */
export interface ParentRef {
  id: string;
  queue: string;
}

const ORDER_PREFIX = "spawn:";

/** The name of the n-th spawn of a handler that has no name of its own. */
export function spawnName(n: number): string {
  return `${ORDER_PREFIX}${n}`;
}

export function isOrderName(name: string): boolean {
  return name.startsWith(ORDER_PREFIX);
}

/** The child as it is shown to users. */
export function shownName(name: string): string | null {
  return isOrderName(name) ? null : name;
}

/** The value of the step that remembers a spawn. */
export interface SpawnedStep {
  id: string;
  queue: string;
  n: number;
}

export function encodeSpawned({ id, queue, n }: SpawnedStep): string {
  return JSON.stringify({ id, queue, n });
}

export function decodeSpawned(value: Body | null): SpawnedStep {
  return JSON.parse(value as string) as SpawnedStep;
}

/**
 * Whether a task that ended this way cancels its children, because no task can use their results. A task that is done
 * does not cancel them. A dead one does not either, because a redrive continues with them.
 */
export function abandonsChildren(state: EndState): boolean {
  return state === "cancelled" || state === "expired";
}

/** Whether a task that is removed abandons its children. `state`: null if it had not ended. */
export function abandonsWhenRemoved(state: EndState | null): boolean {
  return state === null || state === "dead";
}

/**
 * A dead task that is redriven keeps its children and its steps. Every other task that runs again begins without them.
 */
export function keepsChildren({ state, fresh }: { state: TaskState; fresh: boolean }): boolean {
  return state === "dead" && !fresh;
}

/** The state in which a removed child counts from then on. */
export function stateOnceRemoved(state: EndState | null): EndState {
  return state ?? "cancelled";
}

/**
 * The tasks that a spawn adds, numbered after the `known` children of the parent. Refuses what the parent may not spawn.
 */
export function planSpawn(
  parent: { id: string; queue: string; groupKey: string | null },
  policy: Pick<QueuePolicy, "groups">,
  known: number,
  added: readonly NewChild[],
): ChildTask[] {
  checkRoomForChildren(parent.id, known, added.length);
  const tasks = added.map(({ name, task }, i): ChildTask => {
    return { ...task, childOf: { parent: parent.id, n: known + 1 + i, name } };
  });
  checkOtherGroup(parent, policy, tasks);
  checkOwnKeys(tasks);
  return tasks;
}

/** `known`: how many children the task has. */
function checkRoomForChildren(id: string, known: number, adding: number): void {
  if (known + adding <= LIMITS.children) return;
  throw invalid(
    `Task ${id} has ${known} children, and may have ${LIMITS.children}; ${adding} more do not fit. ` +
      `Let each child do more of the work, or spawn children of its own.`,
  );
}

/** In a group that runs in order, the child would wait behind its parent, and the parent for the child. */
function checkOtherGroup(
  parent: { queue: string; groupKey: string | null },
  { groups }: Pick<QueuePolicy, "groups">,
  tasks: readonly NewTask[],
): void {
  const { queue, groupKey } = parent;
  if (groupKey === null || groups.concurrency > 1) return;
  if (!tasks.some((task) => task.queue === queue && task.groupKey === groupKey)) return;
  throw invalid(
    `A child in group ${show(groupKey)} of queue "${queue}" would wait behind its parent, and the parent for the child. ` +
      `Give it another groupKey or none, or add it with task.add(), which waits for nothing.`,
  );
}

export function parentCancelled(id: string): DibsError {
  return new DibsError("TASK_CANCELLED", `Task ${id} was cancelled, and spawns no children any more.`);
}

/** A child has one parent, so a spawn cannot answer with a task that exists. */
export function childKeyTaken({ queue, idempotencyKey }: NewTask): DibsError {
  return invalid(
    `The idempotencyKey ${show(idempotencyKey)} of a child is in use in queue "${queue}" by a task that is not a child of ` +
      `this one. Spawn without a key: another attempt gets the same child anyway.`,
  );
}

/** A spawn returns the same child in each attempt. If the queue differs, the handler's code has changed since. */
export function checkSameQueue(name: string | null, queue: string, spawned: SpawnedStep): void {
  if (spawned.queue === queue) return;
  const what = name === null ? `Child ${spawned.n}` : `Child ${show(name)}`;
  throw invalid(
    `${what} of this task was spawned in queue "${spawned.queue}" by an earlier attempt, and now in "${queue}". Spawns are ` +
      `told apart by their order: spawn in the same order in every attempt, or give each a name.`,
  );
}

/** Children of one call must not have the same key either: the second would be the same task as the first. */
function checkOwnKeys(tasks: readonly NewTask[]): void {
  const seen = new Set<string>();
  for (const task of tasks) {
    if (task.idempotencyKey === undefined) continue;
    const name = JSON.stringify([task.queue, task.idempotencyKey]);
    if (seen.has(name)) throw childKeyTaken(task);
    seen.add(name);
  }
}
