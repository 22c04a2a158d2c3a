import { invalid, isDibsError } from "../core/errors.ts";
import { LIMITS } from "../core/limits.ts";
import { checkNumber } from "../core/options.ts";
import { checkQueueName } from "../core/queue-name.ts";
import { show } from "../core/show.ts";
import { STORE_LIMIT } from "../core/task-id.ts";
import type { TravellingTask } from "../core/task.ts";
import type { Verbs } from "../engine/engine.ts";
import { checkTaskId } from "./check.ts";
import { checkTravelling } from "./check-travelling.ts";
import type { Context } from "./context.ts";

export async function depart(
  context: Context,
  queue: string,
  to: number,
  limit: number,
): Promise<TravellingTask[]> {
  return context.run({
    verb: "depart",
    queue: checkQueueName(queue),
    to: checkNumber(to, "to", 0, STORE_LIMIT - 1),
    limit: checkNumber(limit, "limit", 0, LIMITS.page),
  });
}

/** What they hold was checked when they were added, in the store that they come from; that they are tasks is not. */
export async function arrive(context: Context, tasks: TravellingTask[]): Promise<Verbs["arrive"]["out"]> {
  checkTravelling(tasks);
  for (const { dueIn, expiresIn } of tasks) {
    if (dueIn !== null) context.keeper.expect(Math.max(0, dueIn));
    if (expiresIn !== null) context.keeper.expect(Math.max(0, expiresIn));
  }
  return context.run({ verb: "arrive", tasks });
}

export async function gone(
  context: Context,
  tasks: { id: string; cancelled: boolean }[],
): Promise<Verbs["gone"]["out"]> {
  if (!Array.isArray(tasks)) throw invalid(`gone takes an array of tasks; got ${show(tasks)}.`);
  const known = tasks.map(({ id, cancelled }) => {
    if (typeof cancelled !== "boolean") throw invalid(`cancelled is true or false; got ${show(cancelled)}.`);
    return { id: checkTaskId(id), cancelled };
  });
  return context.run({ verb: "gone", tasks: known });
}

/** Asks about a task; where there is none of this id, about the one that had it in the store it came from. */
export async function byAnyId<T>(context: Context, id: string, ask: (id: string) => Promise<T>): Promise<T> {
  try {
    return await ask(checkTaskId(id));
  } catch (error) {
    if (!isDibsError(error) || error.code !== "TASK_NOT_FOUND") throw error;
    const [known] = await context.run({ verb: "origins", ids: [id] });
    if (known == null) throw error;
    return ask(known);
  }
}
