import type { AddedTask } from "../core/task.ts";
import type { Hint } from "./engine.ts";

/** Counts tasks that a commit added beside those that a caller is told of: what follows a success, and what schedules add. */
export function reportAdded(hint: Hint, added: readonly Pick<AddedTask, "queue" | "existing">[]): void {
  for (const { queue, existing } of added) {
    if (existing) continue;
    hint.added ??= {};
    // A queue may be called "constructor".
    hint.added[queue] = (Object.hasOwn(hint.added, queue) ? hint.added[queue]! : 0) + 1;
  }
}
