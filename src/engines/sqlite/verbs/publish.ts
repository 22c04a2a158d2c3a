import type { Verbs } from "../../../engine/engine.ts";
import { copiesOf } from "../../../core/topic/topic.ts";
import type { AddedTask, Addition, NewTask } from "../../../core/task/task.ts";
import { addTasks } from "./add.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verb `publish`, and the tasks that a success or a schedule publishes. */

export function publish(tx: Tx, { message }: Verbs["publish"]["in"]): AddedTask[] {
  return addTasks(tx, fanOut(tx, [message]));
}

/** The tasks to add: one for each subscription that the topic reaches. */
export function fanOut(tx: Tx, additions: Addition[]): NewTask[] {
  return additions.flatMap((addition) => {
    if (!("topic" in addition)) return [addition];
    const reached = tx.topics.reachedBy(tx, addition.topic);
    return copiesOf(
      addition,
      reached.map(({ queue }) => tx.queues.of(queue).name),
    );
  });
}
