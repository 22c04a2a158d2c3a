import type { Verbs } from "../../engine/engine.ts";
import { isEnd, type TaskState } from "../../core/task.ts";
import { closeAttempt, end } from "./line.ts";
import type { Model, ModelTask } from "./model.ts";
import { cancelRun } from "./runs.ts";

export function cancel(model: Model, { id }: Verbs["cancel"]["in"]): { state: TaskState } {
  const task = model.task(id);
  if (task.run && !isEnd(task.state)) cancelRun(model, { id: task.run.run.id });
  else cancelTask(model, task);
  return { state: task.state };
}

/** Cancels this task only; the caller cancels the others of its run. */
export function cancelTask(model: Model, task: ModelTask): void {
  const { id } = task;
  if (task.claim) {
    const { cancelled, session, fence } = task.claim;
    task.claim.cancelled = true;
    if (!cancelled && session !== null) model.notices.push({ session, kind: "cancel", id, fence });
  } else if (!isEnd(task.state)) {
    if (task.pending) closeAttempt(model, task, "cancelled", null);
    end(model, task, "cancelled");
  }
}
