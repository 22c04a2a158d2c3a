import type { TransactionOptions } from "../core/port.ts";
import type { AddedTask, Addition, NewTask } from "../core/task.ts";
import { checkTasks } from "./check.ts";
import type { Context } from "./context.ts";

/** Not async: it would be one more promise for each task. */
export function add(context: Context, tasks: NewTask[], within?: TransactionOptions): Promise<AddedTask[]> {
  try {
    checkTasks(tasks);
  } catch (error) {
    return Promise.reject(error);
  }
  if (within?.tx !== undefined) return context.runWithin(within.tx, { verb: "add", tasks });
  const added = context.run({ verb: "add", tasks });
  expectTasks(context, tasks);
  return added;
}

/** Their times will come. A queue's own ttl is left to the slow poll: nobody waits for a task to expire. */
export function expectTasks(context: Context, tasks: Addition[]): void {
  for (const { delay, ttl } of tasks) {
    if (delay !== undefined) context.keeper.expect(delay);
    if (ttl !== undefined) context.keeper.expect(ttl);
  }
}
