import type { AddedTask, NewTask } from "../core/task.ts";
import { checkTasks } from "./check.ts";
import type { Context } from "./context.ts";

export async function add(context: Context, tasks: NewTask[]): Promise<AddedTask[]> {
  checkTasks(tasks);
  const added = context.run({ verb: "add", tasks });
  for (const { delay, ttl } of tasks) {
    if (delay !== undefined) context.keeper.expect(delay);
    if (ttl !== undefined) context.keeper.expect(ttl);
  }
  return added;
}
