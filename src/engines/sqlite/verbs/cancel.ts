import type { Verbs } from "../../../engine/engine.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import { isEnd, type TaskState } from "../../../core/task/task.ts";
import { cancelTask } from "../line/cancel.ts";
import { findTask } from "../line/find-task.ts";
import { cancelItsRun } from "../flows/runs.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verb `cancel`. The task of a run is cancelled with its run. */
export function cancel(tx: Tx, { id }: Verbs["cancel"]["in"]): { state: TaskState } {
  const task = findTask(tx, id);
  if (!task) throw taskNotFound(id);
  const { place } = task;
  if (isEnd(place.state)) return { state: place.state };
  if (!cancelItsRun(tx, task)) return { state: cancelTask(tx, task) };
  return { state: place.state === "claimed" ? "claimed" : "cancelled" };
}
