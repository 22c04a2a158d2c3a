import type { Verbs } from "../../../engine/engine.ts";
import { copiesOf } from "../../../core/topic.ts";
import type { AddedTask, Addition, NewMessage, NewTask } from "../../../core/task.ts";
import { addTasks } from "./add.ts";
import type { Tx } from "../transaction/tx.ts";

export async function publish(tx: Tx, { message }: Verbs["publish"]["in"]): Promise<AddedTask[]> {
  return addTasks(tx, await fanOut(tx, [message]));
}

/** The tasks that are to be added: a message becomes one for each subscription. */
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

/** The same of one message, for whoever knows that nothing has changed, or only wants to guess. */
export function rememberedCopies(tx: Tx, message: NewMessage): NewTask[] {
  return copiesOf(
    message,
    tx.topics.remembered(message.topic).map(({ queue }) => queue),
  );
}
