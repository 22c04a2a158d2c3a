import {
  abandonsChildren,
  abandonsWhenRemoved,
  type ChildTask,
  keepsChildren,
} from "../../../core/handler/children.ts";
import { awaitedBy } from "../../../core/handler/children-signal.ts";
import { type EndState, isEnd, type TaskRecord } from "../../../core/task/task.ts";
import type { Found } from "../line/find-task.ts";
import type { TransitionTask } from "../line/line.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * What parents and children mean for each other. The ends of tasks are noted in `tx.batch.relieved` and
 * `tx.batch.abandoned`: line/follow-ends.ts wakes the parents and cancels the children.
 */

const INSERT = `INSERT INTO child (task, parent, n, created_at, name, queue) VALUES (?, ?, ?, ?, ?, ?)`;

/** A task was added as a child. Written before it enters the line, whose row says so. */
export function joinFamily(tx: Tx, seq: number, { queue, childOf }: ChildTask): void {
  tx.noteChild();
  tx.run(INSERT, seq, tx.place(childOf.parent)!.seq, childOf.n, tx.now, childOf.name, queue);
}

const END = `UPDATE child SET state = ?, ended_at = ? WHERE task = ? RETURNING parent`;

/** A task has ended. If it is a child, its parent may wait for that. */
export function endChild(tx: Tx, task: TransitionTask, state: EndState): void {
  if (task.isChild === false || !tx.hasChildren) return;
  const ended = tx.take<{ parent: number }>(END, state, tx.now, task.seq);
  if (ended) tx.batch.relieved.push(ended.parent);
}

const LAST_ERROR = `
  (SELECT json_object('name', name, 'message', message, 'stack', stack)
   FROM dead CROSS JOIN attempt ON attempt.task = dead.task AND attempt.fence = dead.fence WHERE dead.task = child.task)`;
const RESULT = `(SELECT result FROM ended WHERE ended.task = child.task)`;
const LOSE = `
  UPDATE child SET state = coalesce(state, 'cancelled'), ended_at = coalesce(ended_at, ?), error = ${LAST_ERROR},
    result = ${RESULT}
  WHERE task = ? RETURNING parent`;

/** A task is about to be deleted: as a child, its parent keeps its end. What it knows of its own children goes. */
export function loseRelatives(tx: Tx, task: Found): void {
  if (!tx.hasChildren) return;
  const { seq, place } = task;
  const lost = tx.take<{ parent: number }>(LOSE, tx.now, seq);
  if (lost && !isEnd(place.state)) tx.batch.relieved.push(lost.parent);
  if (abandonsWhenRemoved(isEnd(place.state) ? place.state : null)) abandon(tx, seq);
  tx.run(DISSOLVE, seq);
}

const DOOMED = `(SELECT task FROM ended WHERE queue = ? AND (ended_at, task) <= (?, ?))`;
const KEEP_RESULTS = `UPDATE child SET result = ${RESULT} WHERE task IN ${DOOMED}`;
const DISSOLVE_DOOMED = `DELETE FROM child WHERE parent IN ${DOOMED}`;

/** Keeps the results of children, and deletes the rows of parents, for all tasks that are past their retention. */
export function loseEndedRelatives(tx: Tx, queue: number, endedAt: number, last: number): void {
  if (!tx.hasChildren) return;
  for (const sql of [KEEP_RESULTS, DISSOLVE_DOOMED]) tx.run(sql, queue, endedAt, last);
}

const REVIVE = `UPDATE child SET state = NULL, ended_at = NULL, error = NULL, result = NULL WHERE task = ?`;

/** A task that had ended runs again. */
export function reviveRelatives(tx: Tx, { seq, place }: Found, fresh: boolean): void {
  if (!tx.hasChildren) return;
  tx.run(REVIVE, seq);
  if (!keepsChildren({ state: place.state, fresh })) forgetChildren(tx, seq);
}

const PENDING = `
  SELECT n FROM child INDEXED BY child_pending WHERE parent = ? AND n BETWEEN ? AND ? AND state IS NULL ORDER BY n`;

/** Whether one of the awaited children has not ended. */
export function awaitsChildren(tx: Tx, parent: number, signal: string): boolean {
  const awaited = awaitedBy(signal);
  const { first, last, isWhole } = awaited;
  if (isWhole) return tx.get(PENDING, parent, first, last) !== undefined;
  return tx.all<{ n: number }>(PENDING, parent, first, last).some(({ n }) => awaited.has(n));
}

/** The task has ended. */
export function endParent(tx: Tx, { seq, stepped }: TransitionTask, state: EndState): void {
  if (abandonsChildren(state) && stepped !== false) abandon(tx, seq);
}

const ABANDONED = `SELECT task FROM child INDEXED BY child_pending WHERE parent = ? AND state IS NULL ORDER BY n`;

/** Marks the children of a task whose results are no longer needed. */
export function abandon(tx: Tx, parent: number): void {
  if (!tx.hasChildren) return;
  for (const { task } of tx.all<{ task: number }>(ABANDONED, parent)) tx.batch.abandoned.push(task);
}

const DISSOLVE = `DELETE FROM child WHERE parent = ?`;

/** The task begins again without the children that it has spawned. */
export function forgetChildren(tx: Tx, parent: number): void {
  abandon(tx, parent);
  if (tx.hasChildren) tx.run(DISSOLVE, parent);
}

const PARENT = `
  SELECT parent.seq, parent.created_at, parent.queue FROM child CROSS JOIN task AS parent ON parent.seq = child.parent
  WHERE child.task = ?`;
const COUNTS = `SELECT count(*) AS total, count(*) FILTER (WHERE state IS NULL) AS pending FROM child WHERE parent = ?`;

/** What `get` shows of a task's relatives. */
export function relativesOf(tx: Tx, seq: number): Pick<TaskRecord, "parent" | "children"> {
  if (!tx.hasChildren) return {};
  const parent = tx.get<{ seq: number; created_at: number; queue: number }>(PARENT, seq);
  const children = tx.get<{ total: number; pending: number }>(COUNTS, seq)!;
  return {
    ...(parent && {
      parent: { id: tx.id(parent.created_at, parent.seq), queue: tx.queues.of(parent.queue).name },
    }),
    ...(children.total > 0 && { children }),
  };
}
