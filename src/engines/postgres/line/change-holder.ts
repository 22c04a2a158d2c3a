import { storedContentType, storedHeaders } from "../../../core/task/add-rules.ts";
import type { NewTask, TaskState } from "../../../core/task/task.ts";
import type { Unique } from "../../../core/task/unique.ts";
import { toColumns } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";
import type { Found } from "./find-task.ts";
import { enterFirstState } from "./first-state.ts";
import { freeGroup } from "./line.ts";
import { lockPlace, takeOut } from "./take-out.ts";

/** Replaces or debounces the task that already has the key of a unique add. */

const REPLACE = `UPDATE dibs.task SET data = $1, bytes = $2, content_type = $3, headers = $4 WHERE seq = $5`;

/**
 * What a unique add does with the task that has its key, which no worker has started. The task's row in its state is
 * locked until the commit, so that no worker claims it with the old payload. Returns its state; undefined if it has moved
 * since it was found. verbs/add.ts calls it.
 */
export async function changeHolder(
  tx: Tx,
  holder: Found,
  task: NewTask,
  { on }: Unique,
): Promise<TaskState | undefined> {
  if (on === "keep") return holder.place.state;
  if (!(await (on === "debounce" ? takeOut(tx, holder) : lockPlace(tx, holder)))) return undefined;
  tx.send(REPLACE, ...toColumns(task.data), storedContentType(task), storedHeaders(task), holder.seq);
  if (on !== "debounce") return holder.place.state;
  const { seq, pos, rank, queue, groupKey, key, expiresAt, cost, stepped = false } = holder;
  // As a task that is added with a delay, it joins its group when it is due.
  const due = tx.now + task.delay!;
  await enterFirstState(tx, [
    { index: -1, rank, cost: cost ?? null, seq, pos, due, queue, groupKey, key, expiresAt, stepped },
  ]);
  if (holder.blocksGroup) await freeGroup(tx, queue, groupKey!);
  return "scheduled";
}
