import type { Verbs } from "../../../engine/engine.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import { isEnd, type TaskState } from "../../../core/task/task.ts";
import { cancelTask } from "../line/cancel.ts";
import { findTask } from "../line/find-task.ts";
import { cancelItsRun } from "../flows/runs.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verb `cancel`. The task of a run is cancelled with its run. */
export async function cancel(tx: Tx, { id }: Verbs["cancel"]["in"]): Promise<{ state: TaskState }> {
  const task = await findTask(tx, id);
  if (!task) throw taskNotFound(id);
  const { state } = task.place;
  if (!isEnd(state) && (await cancelItsRun(tx, task)))
    return { state: state === "claimed" ? "claimed" : "cancelled" };
  return cancelTask(tx, task.seq);
}
