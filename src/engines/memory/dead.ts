import { isSleepSignal } from "../../core/handler/sleep-signal.ts";
import { isTaken } from "../../core/task/idempotency.ts";
import { DeadGroups, headerPattern, matchesError } from "../../core/task/dead-patterns.ts";
import type { Verbs } from "../../engine/engine.ts";
import { fitting, sizeOfRow } from "../../core/answer/answer-size.ts";
import type { DeadFilter, DeadPattern, PatternKey } from "../../core/task/task.ts";
import { reviveChild, reviveParent } from "./children.ts";
import { returnToLine, remove } from "./line.ts";
import type { Model, ModelTask } from "./model.ts";
import { revivePart } from "./runs.ts";

/** The dead letters that match the filter, the earliest death first. */
export function deadLetters(model: Model, queue: string, filter: DeadFilter): ModelTask[] {
  return model
    .tasksOf(queue, "dead")
    .filter((task) => matches(task, filter))
    .sort((a, b) => a.endedAt! - b.endedAt! || a.seq - b.seq);
}

function matches(task: ModelTask, filter: DeadFilter): boolean {
  return (filter.ids === undefined || filter.ids.includes(task.id)) && matchesError(task.error!, filter);
}

export function patterns(model: Model, { queue, by, limit }: Verbs["patterns"]["in"]): DeadPattern[] {
  const groups = new DeadGroups();
  const bySeq = new Map(deadLetters(model, queue, {}).map((task) => [task.seq, task]));
  for (const [seq, task] of bySeq) groups.add(patternOf(task, by), task.endedAt!, seq);
  const found = groups.largest(limit).map(({ last, ...group }) => {
    const { id, error } = bySeq.get(last)!;
    const { name, message, stack } = error!;
    return { ...group, sample: { id, error: { name, message, stack } } };
  });
  return fitting(found, sizeOfRow);
}

function patternOf(task: ModelTask, by: PatternKey): string {
  if (by === "fingerprint") return task.error!.fingerprint;
  if (by === "worker") return task.ledger.at(-1)!.worker;
  return headerPattern(task.headers, by);
}

export function redrive(
  model: Model,
  { queue, filter, spacing, fresh = false }: Verbs["redrive"]["in"],
): { count: number } {
  const tasks = deadLetters(model, queue, filter);
  for (const [index, task] of tasks.entries())
    bringBack(model, task, { delay: Math.floor(index * spacing), fresh });
  return { count: tasks.length };
}

/** A task that has ended runs again, now or after `delay`. */
export function bringBack(
  model: Model,
  task: ModelTask,
  { delay, fresh }: { delay: number; fresh: boolean },
): void {
  task.failures = 0;
  task.pos = ++model.seq;
  task.endedAt = null;
  task.error = null;
  // A signal that timed out may come now.
  task.steps = fresh ? [] : task.steps.filter(({ kind, name }) => kind !== "timeout" || isSleepSignal(name));
  if (fresh) task.feedback = null;
  // It does not expire: the caller wants it done.
  task.expiresAt = null;
  revivePart(task);
  reviveChild(task);
  reviveParent(model, task, fresh);
  reviveKey(model, task);
  model.announce({ type: "task.redriven", at: model.now, queue: task.queue, taskId: task.id });
  returnToLine(model, task, { delay });
}

/** The task gets its idempotency key back, unless a newer task has it. */
function reviveKey(model: Model, { id, queue, idempotencyKey }: ModelTask): void {
  if (idempotencyKey === null) return;
  const { keys } = model.queue(queue);
  const key = keys.get(idempotencyKey);
  const isFree = !key || key.id === id || !isTaken(key, model.now);
  if (isFree) keys.set(idempotencyKey, { id, forgetAt: null, state: null });
}

export function discard(model: Model, { queue, filter }: Verbs["discard"]["in"]): { count: number } {
  const tasks = deadLetters(model, queue, filter);
  for (const task of tasks) remove(model, task, { keepKey: false });
  return { count: tasks.length };
}
