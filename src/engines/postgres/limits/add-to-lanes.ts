import type { RunTask } from "../../../core/run/run.ts";
import { type NewTask, rankOf } from "../../../core/task/task.ts";
import type { NewTaskRow } from "../line/first-state.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { assignPositions, joinLanes, type PromotedTask, type Waiter } from "./lane-line.ts";
import type { Tx } from "../transaction/tx.ts";

/** How added tasks join groups in queues with limits. */

/** A task that joins its group, and the tasks that this promotes. */
export interface Join {
  waiter: Waiter;
  promoted: PromotedTask[];
}

/**
 * New tasks join their groups before they get numbers, so that the tasks that one of them promotes get lower numbers
 * than the new task after it.
 */
export async function joinNew(
  tx: Tx,
  adding: [index: number, task: NewTask | RunTask][],
): Promise<Map<number, Join>> {
  const joiners = adding.flatMap(([index, task]) => {
    const queue = tx.queues.named(task.queue);
    const isLater = task.delay !== undefined && task.delay > 0;
    if (!queue?.limited || task.groupKey === undefined || isLater) return [];
    return [
      {
        index,
        queue,
        waiter: waiterOf(task.groupKey, Number.POSITIVE_INFINITY, rankOf(task), task.cost ?? null),
      },
    ];
  });
  const joins = await joinAll(tx, joiners);
  return new Map(joins.map((join, i) => [joiners[i]!.index, join]));
}

function waiterOf(key: string, pos: number, rank: number, cost: number | null): Waiter {
  return { key, task: pos, pos, rank, failures: 0, cost, waits: false, isPromoted: false };
}

/** In their order. */
async function joinAll(tx: Tx, joiners: readonly { queue: Queue; waiter: Waiter }[]): Promise<Join[]> {
  const promoted = new Map<Waiter, PromotedTask[]>();
  for (const [queue, its] of Map.groupBy(joiners, (joiner) => joiner.queue)) {
    const waiters = its.map(({ waiter }) => waiter);
    for (const [i, up] of (await joinLanes(tx, queue, waiters)).entries()) promoted.set(waiters[i]!, up);
  }
  return joiners.map(({ waiter }) => ({ waiter, promoted: promoted.get(waiter)! }));
}

export function rotates({ promoted }: Join): boolean {
  return promoted[0]?.lane.queue.policy.groups.fair ?? false;
}

/** Tasks that have a number and have not joined their group yet, in queues with limits. */
export async function joinGroups(tx: Tx, newTasks: NewTaskRow[]): Promise<void> {
  const joining = newTasks.filter(
    ({ queue, groupKey, due, joining: done }) => queue.limited && groupKey !== null && due === null && !done,
  );
  const waiters = joining.map(({ queue, groupKey, seq, pos, rank, cost }) => ({
    queue,
    waiter: { ...waiterOf(groupKey!, pos, rank, cost), task: seq },
  }));
  for (const [i, join] of (await joinAll(tx, waiters)).entries()) {
    const newTask = joining[i]!;
    newTask.joining = join;
    await assignPositions(tx, newTask.queue, join.promoted);
  }
}

/** For each waiting task that was promoted: the index of the added task that promoted it. */
export function promotedBy(newTasks: readonly NewTaskRow[]): Map<number, number> {
  return new Map(
    newTasks.flatMap(({ index, joining }) =>
      (joining?.promoted ?? []).flatMap(({ waiter }) =>
        waiter.waits ? [[waiter.task, index] as const] : [],
      ),
    ),
  );
}
