import { copiesOf } from "../../../core/topic.ts";
import type { AddedTask, Addition, NewMessage, NewTask } from "../../../core/task.ts";
import { add } from "./add.ts";
import type { Tx } from "../transaction/tx.ts";

export function publish(tx: Tx, message: NewMessage): AddedTask[] {
  return add(tx, fanOut(tx, [message]));
}

/** The tasks that are to be added: a message becomes one for each subscription. */
export function fanOut(tx: Tx, additions: Addition[]): NewTask[] {
  return additions.flatMap((addition) => {
    if (!("topic" in addition)) return [addition];
    const reached = tx.topics.reachedBy(tx, addition.topic);
    return copiesOf(
      addition,
      reached.map(({ queue }) => tx.queueOf(queue).name),
    );
  });
}
