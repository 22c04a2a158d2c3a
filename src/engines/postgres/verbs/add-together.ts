import { isLarger } from "../../../core/limits.ts";
import type { AddedTask, NewMessage, NewTask } from "../../../core/task.ts";
import type { Op, Outcome } from "../../../engine/engine.ts";
import { type Adds, addAhead, addedAhead } from "./add-fast.ts";
import { addTasks } from "./add.ts";
import { fanOut, rememberedCopies } from "./publish.ts";
import type { Tx } from "../transaction/tx.ts";

/** Combines the adds and publishes of a batch that follow each other. batch/store.ts and send-ahead.ts call it. */

/** More tasks in one statement would hold up whoever waits for the connection. */
const MOST = 10_000;

/**
 * Adds what operations that follow each other add or publish, all at once, from `from` on; answers none where there are
 * none. Only those that certainly fit: one that is refused must leave the others alone.
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

/** Not waited for where it need not be: there may be thousands in a batch. */
function copiesFor(tx: Tx, message: NewMessage): NewTask[] | Promise<NewTask[]> {
  return tx.topics.isCurrent ? rememberedCopies(tx, message) : fanOut(tx, [message]);
}

function fits(tx: Tx, task: NewTask): boolean {
  const { maxDepth, maxPayload } = tx.queues.policyOf(task.queue);
  return maxDepth === null && !isLarger(task.data, maxPayload);
}

/**
 * Sends the adds that come first in a batch on their way, if all of their tasks are plain; what is published has to wait for
 * the header, which tells whether others have subscribed. Otherwise answers how many numbers the batch will ask for before
 * anything else could: these can be fetched when it begins. Only where it is certain that they will be used.
 */
export function addsAhead(tx: Tx, ops: readonly Op[]): number {
  const adds: NewTask[][] = [];
  let count = 0;
  for (const [index, op] of ops.entries()) {
    const isCertain = op.verb === "add" || (op.verb === "publish" && tx.topics.isCurrent);
    if (!isCertain) break;
    const tasks = op.verb === "add" ? op.tasks : rememberedCopies(tx, op.message);
    if (!tasks.every((task) => task.idempotencyKey === undefined && fits(tx, task))) break;
    if (index > 0 && count + tasks.length > MOST) break;
    count += tasks.length;
    if (op.verb === "add" && adds.length === index) adds.push(tasks);
  }
  return addAhead(tx, ops[0]!, adds) ? 0 : count;
}
