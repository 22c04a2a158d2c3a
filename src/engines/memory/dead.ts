import { isSleepSignal } from "../../core/handler/sleep-signal.ts";
import { isTaken } from "../../core/task/idempotency.ts";
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
  const text = `${task.error!.name}: ${task.error!.message}`.toLowerCase();
  return (
    (filter.ids === undefined || filter.ids.includes(task.id)) &&
    (filter.pattern === undefined || task.error!.fingerprint === filter.pattern) &&
    (filter.error === undefined || text.includes(filter.error.toLowerCase()))
  );
}

export function patterns(model: Model, { queue, by, limit }: Verbs["patterns"]["in"]): DeadPattern[] {
  const all = deadLetters(model, queue, {});
  const groups = Map.groupBy(all, (task) => patternOf(task, by));
  const found = [...groups]
    .map(([pattern, tasks]) => {
      const { id, error } = tasks.at(-1)!;
      return {
        pattern,
        count: tasks.length,
        share: tasks.length / all.length,
        firstAt: tasks[0]!.endedAt!,
        lastAt: tasks.at(-1)!.endedAt!,
        sample: { id, error: error && { name: error.name, message: error.message, stack: error.stack } },
      };
    })
    .sort((a, b) => b.count - a.count || (a.pattern < b.pattern ? -1 : 1))
    .slice(0, limit);
  return fitting(found, sizeOfRow);
}

function patternOf(task: ModelTask, by: PatternKey): string {
  if (by === "fingerprint") return task.error!.fingerprint;
  if (by === "worker") return task.ledger.at(-1)!.worker;
  const name = by.slice("header:".length);
  return Object.hasOwn(task.headers, name) ? task.headers[name]! : "";
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
