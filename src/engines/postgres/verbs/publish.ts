import type { Verbs } from "../../../engine/engine.ts";
import { copiesOf } from "../../../core/topic/topic.ts";
import type { AddedTask, Addition, NewMessage, NewTask } from "../../../core/task/task.ts";
import { addTasks } from "./add.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verb `publish`, and the tasks that a success or a schedule publishes. */

export async function publish(tx: Tx, { message }: Verbs["publish"]["in"]): Promise<AddedTask[]> {
  return addTasks(tx, await fanOut(tx, [message]));
}

/** The tasks to add: one for each subscription that the topic reaches. */
export async function fanOut(tx: Tx, additions: readonly Addition[]): Promise<NewTask[]> {
  const tasks: NewTask[] = [];
  for (const addition of additions) {
    if (!("topic" in addition)) {
      tasks.push(addition);
      continue;
    }
    await tx.topics.reachedBy(addition.topic);
    for (const copy of rememberedCopies(tx, addition)) tasks.push(copy);
  }
  return tasks;
}

/** As fanOut, from the cached subscriptions. */
export function rememberedCopies(tx: Tx, message: NewMessage): NewTask[] {
  return copiesOf(
    message,
    tx.topics.remembered(message.topic).map(({ queue }) => queue),
  );
}
