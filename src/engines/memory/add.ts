import type { Verbs } from "../../engine/engine.ts";
import { checkDepth, checkPayloads, countNew } from "../../core/add-rules.ts";
import { isTaken } from "../../core/idempotency.ts";
import { formatTaskId } from "../../core/task-id.ts";
import { type AddedTask, JSON_TYPE, type NewTask } from "../../core/task.ts";
import type { RunTask } from "../../core/run.ts";
import { enter, schedule } from "./line.ts";
import type { Model, ModelKey, ModelTask } from "./model.ts";
import { joinRun } from "./runs.ts";

export function add(model: Model, { tasks }: Verbs["add"]["in"]): AddedTask[] {
  return addTasks(model, tasks);
}

/** Adds all or none: everything is checked before anything is written. */
export function addTasks(model: Model, tasks: (NewTask | RunTask)[]): AddedTask[] {
  checkAdds(model, tasks);
  return addChecked(model, tasks);
}

/** After what they are added with, which must not change any more whether they fit. */
export function addChecked(model: Model, tasks: (NewTask | RunTask)[]): AddedTask[] {
  return tasks.map((task) => addOne(model, task));
}

export function checkAdds(model: Model, tasks: (NewTask | RunTask)[]): void {
  checkPayloads(tasks, (queue) => model.policy(queue));
  for (const [queue, count] of countNew(tasks, (task) => takenKey(model, task) !== undefined)) {
    const { maxDepth } = model.policy(queue);
    if (maxDepth !== null) checkDepth(queue, model.depth(queue), count, maxDepth);
  }
}

export function takenKey(
  model: Model,
  task: Pick<NewTask, "queue" | "idempotencyKey">,
): ModelKey | undefined {
  const key = model.queues.get(task.queue)?.keys.get(task.idempotencyKey!);
  return key && isTaken(key, model.now) ? key : undefined;
}

function addOne(model: Model, task: NewTask | RunTask): AddedTask {
  const queue = model.queue(task.queue);
  const taken = task.idempotencyKey !== undefined && takenKey(model, task);
  if (taken) {
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
    blocksGroup: false,
    elsewhere: null,
    owner: null,
    claim: null,
    pending: null,
    feedback: null,
    run: null,
    ledger: [],
    endedAt: null,
    result: null,
    error: null,
  };
  model.tasks.set(id, added);
  if ("at" in task) joinRun(model, added, undefined, task.at);
  else if (task.run) joinRun(model, added, task.run);
  if (task.idempotencyKey !== undefined) {
    queue.keys.set(task.idempotencyKey, { id, forgetAt: null, state: null });
  }
  model.flow(task.queue).added++;
  model.announce({ type: "task.added", at: model.now, queue: task.queue, taskId: id });
  if (task.delay !== undefined && task.delay > 0) schedule(added, model.now + task.delay);
  else enter(model, added);
  return { id, queue: task.queue, state: added.state, existing: false };
}
