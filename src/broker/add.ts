import type { TransactionOptions } from "../core/port.ts";
import type { AddedTask, Addition, NewTask } from "../core/task/task.ts";
import { withStoredKey } from "../core/task/unique.ts";
import { checkTasks } from "../core/task/additions.ts";
import type { Context } from "./context.ts";

/** Not async: that would cost a promise per task. */
export function add(context: Context, given: NewTask[], within?: TransactionOptions): Promise<AddedTask[]> {
  let tasks: NewTask[];
  try {
    checkTasks(given);
    tasks = withStoredKeys(given);
  } catch (error) {
    return Promise.reject(error);
  }
  if (within?.tx !== undefined) return context.executeInTransaction(within.tx, { verb: "add", tasks });
  const added = context.run({ verb: "add", tasks });
  expectTasks(context, tasks);
  return added;
}

/** Returns the given array if it has no unique task, which is the usual case. */
export function withStoredKeys<Add extends Addition>(adds: Add[]): Add[] {
  return adds.some((add) => "unique" in add) ? adds.map(withStoredKey) : adds;
}

/**
 * Wakes the housekeeper when these tasks are due or expire. It is not woken for the ttl of a queue's policy: the slow
 * poll finds those tasks, and no caller waits for a task to expire.
 */
export function expectTasks(context: Context, tasks: Addition[]): void {
  for (const { delay, ttl } of tasks) {
    if (delay !== undefined) context.housekeeper.expect(delay);
    if (ttl !== undefined) context.housekeeper.expect(ttl);
  }
}
