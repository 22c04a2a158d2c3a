import { storedContentType, storedHeaders } from "../../../core/task/add-rules.ts";
import type { NewTask, TaskState } from "../../../core/task/task.ts";
import type { Unique } from "../../../core/task/unique.ts";
import type { Tx } from "../transaction/tx.ts";
import { markInLine } from "./enter-line.ts";
import { type Found, takeOut } from "./find-task.ts";
import { freeGroup, schedule, watchTtl } from "./line.ts";

// This rewrites the whole row with its payload.
const REPLACE = `UPDATE task SET data = ?, content_type = ?, headers = ? WHERE seq = ?`;

/**
 * What a unique add does with the task that has its key, which no worker has started. Returns the task's new state;
 * undefined if that is the same. verbs/add.ts calls it.
 */
export function changeHolder(tx: Tx, holder: Found, task: NewTask, { on }: Unique): TaskState | undefined {
  if (on === "keep") return undefined;
  tx.run(REPLACE, task.data, storedContentType(task), storedHeaders(task), holder.seq);
  const { place } = holder;
  if (on !== "debounce") {
    if (place.state === "ready")
      markInLine(tx, "options", place.line.table, { ...holder, pos: place.line.pos });
    return undefined;
  }
  const { blocksGroup, groupKey, queue } = holder;
  takeOut(tx, holder);
  // Like a task that is added with a delay, it joins its group when it is due.
  const state = schedule(tx, { ...holder, blocksGroup: false }, tx.now + task.delay!);
  watchTtl(tx, holder);
  if (blocksGroup) freeGroup(tx, queue, groupKey!);
  return state;
}
