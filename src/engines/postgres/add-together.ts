import { isLarger } from "../../core/limits.ts";
import { copiesOf } from "../../core/topic.ts";
import type { AddedTask, NewTask } from "../../core/task.ts";
import type { Op, Outcome } from "../../engine/engine.ts";
import { add } from "./add.ts";
import { fanOut } from "./publish.ts";
import type { Tx } from "./tx.ts";

/** More tasks in one statement would hold up whoever waits for the connection. */
const MOST = 10_000;

/**
 * Adds what operations that follow each other add or publish, all at once, from `from` on; answers none where there are
 * none. Only those that certainly fit: one that is refused must leave the others alone.
 */
export async function addTogether(tx: Tx, ops: readonly Op[], from: number): Promise<Outcome[]> {
  const adds = await addsFrom(tx, ops, from);
  if (adds.length === 0) return [];
  const added = await add(tx, adds.flat());
  let first = 0;
  return adds.map((tasks): { ok: AddedTask[] } => ({ ok: added.slice(first, (first += tasks.length)) }));
}

/** The tasks of each operation. */
async function addsFrom(tx: Tx, ops: readonly Op[], from: number): Promise<NewTask[][]> {
  const adds: NewTask[][] = [];
  let count = 0;
  for (let i = from; i < ops.length; i++) {
    const op = ops[i]!;
    if (op.verb !== "add" && op.verb !== "publish") break;
    const tasks = op.verb === "add" ? op.tasks : await fanOut(tx, [op.message]);
    if (!tasks.every((task) => fits(tx, task))) break;
    count += tasks.length;
    if (adds.length > 0 && count > MOST) break;
    adds.push(tasks);
  }
  return adds;
}

function fits(tx: Tx, task: NewTask): boolean {
  const { maxDepth, maxPayload } = tx.policy(task.queue);
  return maxDepth === null && !isLarger(task.data, maxPayload);
}

/**
 * How many numbers a batch will ask for before anything else could: they are then fetched when it begins. Only where
 * it is certain that they will be used.
 */
export function numbersFor(tx: Tx, ops: readonly Op[]): number {
  let count = 0;
  for (const op of tx.knowsQueues ? ops : []) {
    if (op.verb === "add") {
      if (!op.tasks.every((task) => task.idempotencyKey === undefined && fits(tx, task))) break;
      count += op.tasks.length;
    } else if (op.verb === "publish") {
      const { message } = op;
      const tasks = copiesOf(message, tx.topics.foreseen(tx, message.topic));
      if (tasks.length === 0) break;
      if (!tasks.every((task) => task.idempotencyKey === undefined && fits(tx, task))) break;
      count += tasks.length;
    } else break;
  }
  return count;
}
