import type { RunState } from "../../core/run/run.ts";
import { isEnd, type TaskState } from "../../core/task/task.ts";
import type { Verbs } from "../../engine/engine.ts";
import { cancelTask } from "./line.ts";
import type { Model } from "./model.ts";
import { endRun, knownRun, stateOf } from "./runs.ts";

/** The verbs `cancel` and `cancelRun`. Cancelling a task of a run cancels the run. */

export function cancel(model: Model, { id }: Verbs["cancel"]["in"]): { state: TaskState } {
  const task = model.task(id);
  if (task.run && !isEnd(task.state)) cancelRun(model, { id: task.run.run.id });
  else cancelTask(model, task);
  return { state: task.state };
}

export function cancelRun(model: Model, { id }: Verbs["cancelRun"]["in"]): { state: RunState } {
  const run = knownRun(model, id);
  if (run.state === null) for (const task of endRun(model, run, "cancelled", null)) cancelTask(model, task);
  return { state: stateOf(run) };
}
