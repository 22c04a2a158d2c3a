import { byteLength, LIMITS, tooManySteps } from "../../core/limits.ts";
import { isEnd, type TaskState } from "../../core/task.ts";
import { NEVER } from "../../core/transition.ts";
import type { Settlement } from "../../engine/settlement.ts";
import type { Verbs } from "../../engine/engine.ts";
import { closeAttempt, heldTask, returnToLine } from "./line.ts";
import type { Model, ModelTask } from "./model.ts";

/** Steps that a handler stores for its next attempt, and tasks that wait for a signal. */

export function step(model: Model, { id, fence, name, value }: Verbs["step"]["in"]): null {
  const task = heldTask(model, id, fence);
  const others = task.steps.filter((other) => other.kind !== "step" || other.name !== name);
  const steps = [...others, { kind: "step" as const, name, value }];
  checkRoom(steps);
  task.steps = steps;
  return null;
}

function checkRoom(steps: ModelTask["steps"]): void {
  const bytes = steps.reduce((sum, { value }) => sum + (value === null ? 0 : byteLength(value)), 0);
  if (steps.length > LIMITS.steps || bytes > LIMITS.allStepBytes) throw tooManySteps(steps.length, bytes);
}

export function park(
  model: Model,
  task: ModelTask,
  { signal, timeout }: Settlement & { kind: "park" },
): void {
  const { worker } = task.claim!;
  closeAttempt(model, task, "parked", null);
  model.announce({
    type: "task.parked",
    at: model.now,
    queue: task.queue,
    taskId: task.id,
    worker,
    detail: signal,
  });
  if (hasHeard(task, signal)) return returnToLine(model, task, { delay: 0 });
  returnToLine(model, task, { delay: timeout ?? NEVER, signal });
}

/** Whether the signal came or timed out already. */
function hasHeard(task: ModelTask, signal: string): boolean {
  return task.steps.some(({ kind, name }) => kind !== "step" && name === signal);
}

export function signal(
  model: Model,
  { id, name, value }: Verbs["signal"]["in"],
): { kept: boolean; state: TaskState } {
  const task = model.task(id);
  if (isEnd(task.state) || hasHeard(task, name)) return { kept: false, state: task.state };
  const steps = [...task.steps, { kind: "signal" as const, name, value }];
  checkRoom(steps);
  task.steps = steps;
  model.announce({ type: "task.signalled", at: model.now, queue: task.queue, taskId: id, detail: name });
  if (task.waitsFor === name) returnToLine(model, task, { delay: 0 });
  return { kept: true, state: task.state };
}
