import { isBounded } from "../../../core/task/add-rules.ts";
import { isLarger } from "../../../core/input/limits.ts";
import type { AddedTask, NewMessage, NewTask } from "../../../core/task/task.ts";
import type { Op, Outcome } from "../../../engine/engine.ts";
import { type Adds, addAhead, addedAhead } from "./add-fast.ts";
import { addTasks } from "./add.ts";
import { fanOut, rememberedCopies } from "./publish.ts";
import type { Tx } from "../transaction/tx.ts";

/** Combines the adds and publishes of a batch that follow each other. batch/store.ts and send-ahead.ts call it. */

/** More tasks in one statement would delay the batches that wait for the connection. */
const MOST = 10_000;

/**
 * Adds the tasks of the adds and publishes that follow each other from index `from` on; returns no outcomes if there are
 * none. Only those that certainly fit: the refusal of one must not affect the others.
 */
export async function addTogether(tx: Tx, ops: readonly Op[], from: number): Promise<Outcome[]> {
  return outcomesOf((await addedAhead(tx, ops[from]!)) ?? (await addNow(tx, ops, from)));
}

/** For each operation. */
function outcomesOf({ adds, added }: Adds): Outcome[] {
  let first = 0;
  return adds.map((tasks): { ok: AddedTask[] } => ({ ok: added.slice(first, (first += tasks.length)) }));
}

async function addNow(tx: Tx, ops: readonly Op[], from: number): Promise<Adds> {
  const adds = await addsFrom(tx, ops, from);
  return { adds, added: adds.length > 0 ? await addTasks(tx, adds.flat()) : [] };
}

/** The tasks of each operation. */
async function addsFrom(tx: Tx, ops: readonly Op[], from: number): Promise<NewTask[][]> {
  const adds: NewTask[][] = [];
  let count = 0;
  for (let i = from; i < ops.length; i++) {
    const op = ops[i]!;
    if (op.verb !== "add" && op.verb !== "publish") break;
    const given = op.verb === "add" ? op.tasks : copiesFor(tx, op.message);
    const tasks = given instanceof Promise ? await given : given;
    if (!tasks.every((task) => fits(tx, task))) break;
    count += tasks.length;
    if (adds.length > 0 && count > MOST) break;
    adds.push(tasks);
  }
  return adds;
}

/** A promise only if necessary: there may be thousands in a batch. */
function copiesFor(tx: Tx, message: NewMessage): NewTask[] | Promise<NewTask[]> {
  return tx.topics.isCurrent ? rememberedCopies(tx, message) : fanOut(tx, [message]);
}

function fits(tx: Tx, task: NewTask): boolean {
  const policy = tx.queues.policyOf(task.queue);
  return !isBounded(policy) && !isLarger(task.data, policy.maxPayload);
}

/**
 * Sends the adds at the start of a batch ahead, if all of their tasks are plain. Publishes wait for the header, which tells
 * whether subscriptions have changed.
 */
export function addsAhead(tx: Tx, ops: readonly Op[]): void {
  const adds: NewTask[][] = [];
  let count = 0;
  for (const op of ops) {
    if (op.verb !== "add" || !op.tasks.every((task) => fits(tx, task))) break;
    count += op.tasks.length;
    if (adds.length > 0 && count > MOST) break;
    adds.push(op.tasks);
  }
  addAhead(tx, ops[0]!, adds);
}
