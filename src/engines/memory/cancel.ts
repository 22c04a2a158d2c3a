import { isEnd, type TaskState } from "../../core/task.ts";
import { closeAttempt, end } from "./line.ts";
import type { Model } from "./model.ts";

export function cancel(model: Model, id: string): { state: TaskState } {
  const task = model.task(id);
  if (task.claim) {
    const { cancelled, session, fence } = task.claim;
    task.claim.cancelled = true;
    if (!cancelled && session !== null) model.notices.push({ session, kind: "cancel", id, fence });
  } else if (task.leaving) {
    if (!isEnd(task.state)) task.leaving.cancelled = true;
  } else if (!isEnd(task.state)) {
    if (task.pending) closeAttempt(model, task, "cancelled", null);
    end(model, task, "cancelled");
  }
  return { state: task.state };
}
