import { isChildrenSignal } from "../../core/handler/children-signal.ts";
import { checkStepRoom } from "../../core/input/limits.ts";
import { type Body, isEnd } from "../../core/task/task.ts";
import { NEVER } from "../../core/task/transition.ts";
import type { Settlement } from "../../engine/settlement.ts";
import type { Verbs } from "../../engine/engine.ts";
import { awaitsChildren } from "./children.ts";
import { closeAttempt, heldTask, returnToLine } from "./line.ts";
import type { Model, ModelTask } from "./model.ts";
import { knownRun, stateOf } from "./runs.ts";

/** Steps that a handler stores for its next attempt, and tasks that wait for a signal. */

export function step(model: Model, { id, fence, name, value }: Verbs["step"]["in"]): null {
  const task = heldTask(model, id, fence);
  const others = task.steps.filter((other) => other.kind !== "step" || other.name !== name);
  const steps = [...others, { kind: "step" as const, name, value }];
  checkStepRoom(steps);
  task.steps = steps;
  return null;
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
  if (isChildrenSignal(signal)) {
    const isOver = hasHeard(task, signal) || !awaitsChildren(model, task.id, signal);
    return returnToLine(model, task, isOver ? { delay: 0 } : { delay: timeout ?? NEVER, signal });
  }
  const early = task.run?.run.signals.get(signal);
  if (early !== undefined && !hasHeard(task, signal)) receive(model, task, signal, early);
  if (hasHeard(task, signal)) return returnToLine(model, task, { delay: 0 });
  returnToLine(model, task, { delay: timeout ?? NEVER, signal });
}

/** Whether the signal came or timed out already. */
function hasHeard(task: ModelTask, signal: string): boolean {
  return task.steps.some(({ kind, name }) => (kind === "signal" || kind === "timeout") && name === signal);
}

export function signal(model: Model, { id, name, value, of }: Verbs["signal"]["in"]): Verbs["signal"]["out"] {
  if (of === "runs") return signalRun(model, id, name, value);
  const task = model.task(id);
  if (isEnd(task.state) || hasHeard(task, name)) return { kept: false, state: task.state };
  checkStepRoom([...task.steps, { value }]);
  receive(model, task, name, value);
  if (task.waitsFor === name) returnToLine(model, task, { delay: 0 });
  return { kept: true, state: task.state };
}

function receive(model: Model, task: ModelTask, name: string, value: Body | null): void {
  task.steps = [...task.steps, { kind: "signal", name, value }];
  const { queue, id: taskId } = task;
  model.announce({ type: "task.signalled", at: model.now, queue, taskId, detail: name });
}

/** Every task of the run that is parked for it gets a copy now, and later ones when they park for it. */
function signalRun(model: Model, id: string, name: string, value: Body | null): Verbs["signal"]["out"] {
  const run = knownRun(model, id);
  if (run.state !== null || run.signals.has(name)) return { kept: false, state: stateOf(run) };
  checkStepRoom([...run.signals, [name, value] as const].map(([, each]) => ({ value: each })));
  run.signals.set(name, value);
  for (const { id: part } of run.parts) {
    const task = model.tasks.get(part);
    if (task?.waitsFor !== name) continue;
    receive(model, task, name, value);
    returnToLine(model, task, { delay: 0 });
  }
  return { kept: true, state: stateOf(run) };
}
