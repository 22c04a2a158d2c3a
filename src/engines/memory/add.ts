import type { Verbs } from "../../engine/engine.ts";
import { checkBytes, checkDepth, checkPayloads, countNew } from "../../core/task/add-rules.ts";
import { isTaken } from "../../core/task/idempotency.ts";
import { formatTaskId, parseTaskId } from "../../core/task/task-id.ts";
import { type AddedTask, JSON_TYPE, type NewTask } from "../../core/task/task.ts";
import { holdsKey, type Unique } from "../../core/task/unique.ts";
import { isChild } from "../../core/handler/children.ts";
import type { RunTask } from "../../core/run/run.ts";
import { joinFamily } from "./children.ts";
import { enter, freeGroup, schedule } from "./line.ts";
import type { Model, ModelKey, ModelTask } from "./model.ts";
import { joinRun } from "./runs.ts";
import { readyBytes, trim } from "./trim.ts";

/**
 * The verb `add`, and the adds of other verbs (publish, a success, a schedule). Each task enters its first state here.
 */

export function add(model: Model, { tasks }: Verbs["add"]["in"]): AddedTask[] {
  return addTasks(model, tasks);
}

/** Adds all or none: everything is checked before anything is written. */
export function addTasks(model: Model, tasks: (NewTask | RunTask)[]): AddedTask[] {
  checkAdds(model, tasks);
  return addChecked(model, tasks);
}

/** Adds tasks that `checkAdds` has checked: it must not be checked again after part of a batch is written. */
export function addChecked(model: Model, tasks: (NewTask | RunTask)[]): AddedTask[] {
  const added = tasks.map((task) => addOne(model, task));
  for (const queue of new Set(tasks.map((task) => task.queue))) trim(model, queue, tasks.length);
  return added;
}

export function checkAdds(model: Model, tasks: (NewTask | RunTask)[]): void {
  checkPayloads(tasks, (queue) => model.policy(queue));
  for (const [queue, count] of countNew(tasks, (task) => takenKey(model, task) !== undefined)) {
    const policy = model.policy(queue);
    if (policy.overflow === "drop-oldest") continue;
    const { maxDepth, maxBytes } = policy;
    if (maxDepth !== null) checkDepth(queue, model.depth(queue), count, maxDepth);
    if (maxBytes !== null) checkBytes(queue, tasks, readyBytes(model, queue), maxBytes);
  }
}

export function takenKey(
  model: Model,
  task: Pick<NewTask, "queue" | "idempotencyKey" | "unique">,
): ModelKey | undefined {
  const key = model.queues.get(task.queue)?.keys.get(task.idempotencyKey!);
  if (!key || !isTaken(key, model.now)) return undefined;
  return task.unique === undefined || holdsKey(task.unique, holderOf(model, key), model.now)
    ? key
    : undefined;
}

function holderOf(model: Model, { id, state }: ModelKey): Parameters<typeof holdsKey>[1] {
  const task = model.tasks.get(id);
  const { createdAt } = parseTaskId(id, model.store)!;
  return { state: task?.state ?? state!, failures: task?.failures ?? 0, createdAt };
}

function addOne(model: Model, task: NewTask | RunTask): AddedTask {
  const queue = model.queue(task.queue);
  const taken = task.idempotencyKey !== undefined && takenKey(model, task);
  if (taken) {
    if (task.unique) change(model, model.tasks.get(taken.id)!, task, task.unique);
    const state = model.tasks.get(taken.id)?.state ?? taken.state!;
    return { id: taken.id, queue: task.queue, state, existing: true };
  }
  const seq = ++model.seq;
  const id = formatTaskId(model.now, seq, model.store);
  const ttl = task.ttl ?? model.policy(task.queue).ttl;
  const added: ModelTask = {
    seq,
    id,
    queue: task.queue,
    state: "ready",
    data: task.data,
    contentType: task.contentType ?? JSON_TYPE,
    headers: task.headers ?? {},
    priority: task.priority ?? 0,
    groupKey: task.groupKey ?? null,
    idempotencyKey: task.idempotencyKey ?? null,
    maxAttempts: task.maxAttempts ?? null,
    cost: task.cost ?? null,
    urgent: task.urgent ?? false,
    createdAt: model.now,
    expiresAt: ttl === null ? null : model.now + ttl,
    pos: seq,
    place: seq,
    failures: 0,
    dueAt: null,
    waitsFor: null,
    steps: [],
    log: [],
    blocksGroup: false,
    elsewhere: null,
    owner: null,
    claim: null,
    pending: null,
    feedback: null,
    run: null,
    child: null,
    ledger: [],
    endedAt: null,
    result: null,
    error: null,
  };
  model.tasks.set(id, added);
  if ("at" in task) joinRun(model, added, undefined, task.at);
  else if (task.run) joinRun(model, added, task.run);
  if (isChild(task)) joinFamily(model, added, task.childOf);
  if (task.idempotencyKey !== undefined) {
    queue.keys.set(task.idempotencyKey, { id, forgetAt: null, state: null });
  }
  model.flow(task.queue).added++;
  model.announce({ type: "task.added", at: model.now, queue: task.queue, taskId: id });
  if (task.delay !== undefined && task.delay > 0) schedule(added, model.now + task.delay);
  else enter(model, added);
  return { id, queue: task.queue, state: added.state, existing: false };
}

/** What an add does with the task that has its key. */
function change(model: Model, holder: ModelTask, task: NewTask | RunTask, { on }: Unique): void {
  if (on === "keep") return;
  holder.data = task.data;
  holder.contentType = task.contentType ?? JSON_TYPE;
  holder.headers = task.headers ?? {};
  if (on !== "debounce") return;
  holder.elsewhere = null;
  holder.owner = null;
  schedule(holder, model.now + task.delay!);
  freeGroup(model, holder);
}
