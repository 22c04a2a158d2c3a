import type { AddedTask } from "../core/task/task.ts";
import type { Hint } from "./hint.ts";

/**
 * Counts, in the hint, the tasks that a commit added without returning their ids to a caller: follow-ups of a success,
 * and what schedules add. The engines call it.
 */
export function reportAdded(hint: Hint, added: readonly Pick<AddedTask, "queue" | "existing">[]): void {
  for (const { queue, existing } of added) {
    if (existing) continue;
    hint.added ??= {};
    // A queue may be called "constructor".
    hint.added[queue] = (Object.hasOwn(hint.added, queue) ? hint.added[queue]! : 0) + 1;
  }
}
