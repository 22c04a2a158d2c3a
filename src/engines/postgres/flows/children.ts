import {
  abandonsChildren,
  abandonsWhenRemoved,
  type ChildTask,
  isChild,
  keepsChildren,
} from "../../../core/handler/children.ts";
import { awaitedBy } from "../../../core/handler/children-signal.ts";
import { type EndState, isEnd, type TaskRecord } from "../../../core/task/task.ts";
import type { Found } from "../line/find-task.ts";
import type { TransitionTask } from "../line/line.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { isAmong, isRowBy, lookUp, rowsBy, rowsOf, TASK_OF } from "../statements/look-up.ts";
import { numbers, toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * What parents and children mean for each other. The ends of tasks are noted in `tx.batch.relieved` and
 * `tx.batch.abandoned`: line/follow-ends.ts wakes the parents and cancels the children. A transaction that writes to
 * `dibs.child` first locks the row of the family (run-locks.ts).
 */

const BEGIN = `INSERT INTO dibs.family (parent) VALUES ($1) ON CONFLICT DO NOTHING`;

/** Before its first child is added. Its claim is locked, so no other transaction does the same. */
export function beginFamily(tx: Tx, parent: number): void {
  tx.put(BEGIN, parent);
  tx.runs.noteFamily(parent);
}

const INSERT = `
  INSERT INTO dibs.child (task, parent, n, created_at, name, queue)
  SELECT task, parent, n, $1, name, queue
  FROM unnest($2::int8[], $3::int8[], $4::int4[], $5::text[], $6::text[]) AS each (task, parent, n, name, queue)`;

/** Tasks were added, some of them as children. */
export function joinFamilies(tx: Tx, newTasks: readonly { seq: number; task: object }[]): void {
  const children = newTasks.filter((each): each is { seq: number; task: ChildTask } => isChild(each.task));
  if (children.length === 0) return;
  tx.put(
    INSERT,
    tx.now,
    numbers(children.map(({ seq }) => seq)),
    numbers(children.map(({ task }) => tx.place(task.childOf.parent)!.seq)),
    numbers(children.map(({ task }) => task.childOf.n)),
    children.map(({ task }) => toText(task.childOf.name)),
    children.map(({ task }) => task.queue),
  );
}

const END = `
  UPDATE dibs.child SET state = $2, ended_at = $3 WHERE ${isRowBy("child", { task: "$1::int8" })} RETURNING parent`;

/** A task has ended. If it is a child, its parent may wait for that. */
export async function endChild(tx: Tx, task: TransitionTask, state: EndState): Promise<void> {
  if (task.stepped === false) return;
  await tx.runs.hold([task.seq]);
  if (!tx.runs.holdsFamilies) return;
  for (const { parent } of await tx.take<{ parent: number }>(END, task.seq, state, tx.now))
    tx.batch.relieved.push(parent);
}

const LOSE = `
  UPDATE dibs.child SET state = 'cancelled', ended_at = $2
  WHERE ctid = ANY (ARRAY (SELECT place FROM ${rowsOf("child", "$1::int8[]", "ctid AS place, state")} AS lost WHERE state IS NULL))
  RETURNING parent`;
const KEEP_ERRORS = `
  UPDATE dibs.child SET error = (
    SELECT json_build_object('name', name, 'message', message, 'stack', stack)::text FROM dibs.attempt
    WHERE attempt.task = child.task ORDER BY fence DESC LIMIT 1)
  WHERE ${isAmong("child", "$1::int8[]")}`;

/**
 * Tasks are deleted, while their ledgers still exist. As children, their parents keep their ends. What they know of their
 * own children goes.
 */
export async function loseRelatives(tx: Tx, tasks: readonly Found[]): Promise<void> {
  if (tx.runs.areMet) await tx.runs.recheck(tasks.map(({ seq }) => seq));
  if (!tx.runs.holdsFamilies) return;
  const seqs = numbers(tasks.map(({ seq }) => seq));
  const dead = tasks.filter(({ place }) => place.state === "dead");
  if (dead.length > 0) tx.send(KEEP_ERRORS, numbers(dead.map(({ seq }) => seq)));
  for (const { parent } of await tx.take<{ parent: number }>(LOSE, seqs, tx.now))
    tx.batch.relieved.push(parent);
  for (const { seq, place } of tasks) {
    if (abandonsWhenRemoved(isEnd(place.state) ? place.state : null)) await abandon(tx, seq);
  }
  dissolve(tx, seqs);
}

const KEEP_RESULTS = `
  UPDATE dibs.child SET result = ${rowsBy("ended", { task: "child.task" }, { columns: "result" })},
    result_bytes = ${rowsBy("ended", { task: "child.task" }, { columns: "result_bytes" })}
  WHERE ${isAmong("child", "$1::int8[]")}`;

/** Before the rows of `ended` are deleted. */
export function keepResults(tx: Tx, seqs: readonly number[]): void {
  if (tx.runs.holdsFamilies) tx.send(KEEP_RESULTS, numbers(seqs));
}

const DISSOLVE = [
  `DELETE FROM dibs.child WHERE parent = ANY ($1::int8[])`,
  `DELETE FROM dibs.family WHERE parent = ANY ($1::int8[])`,
] as const;

/** `parents`: as an array literal. */
function dissolve(tx: Tx, parents: string): void {
  for (const sql of DISSOLVE) tx.send(sql, parents);
}

/** Tasks that are past their retention were deleted. */
export function dissolveEnded(tx: Tx, seqs: readonly number[]): void {
  if (tx.runs.holdsFamilies) dissolve(tx, numbers(seqs));
}

const REVIVE = `
  UPDATE dibs.child SET state = NULL, ended_at = NULL, error = NULL, result = NULL, result_bytes = NULL
  WHERE ${isAmong("child", "$1::int8[]")}`;

/** Tasks that had ended run again. Their runs and families are locked. */
export async function reviveRelatives(tx: Tx, tasks: readonly Found[], fresh: boolean): Promise<void> {
  if (!tx.runs.holdsFamilies) return;
  tx.send(REVIVE, numbers(tasks.map(({ seq }) => seq)));
  for (const { seq, place } of tasks)
    if (!keepsChildren({ state: place.state, fresh })) await forgetChildren(tx, seq);
}

const PENDING = `
  SELECT n FROM dibs.child WHERE parent = $1 AND n BETWEEN $2 AND $3 AND state IS NULL ORDER BY parent, n LIMIT $4`;

/** Whether one of the awaited children has not ended. The family is locked. */
export async function awaitsChildren(tx: Tx, parent: number, signal: string): Promise<boolean> {
  const awaited = awaitedBy(signal);
  const { first, last, isWhole } = awaited;
  const rows = await tx.all<{ n: number }>(PENDING, parent, first, last, isWhole ? 1 : last);
  return rows.some(({ n }) => awaited.has(n));
}

/** The task has ended. */
export async function endParent(tx: Tx, { seq, stepped }: TransitionTask, state: EndState): Promise<void> {
  if (!abandonsChildren(state) || stepped === false) return;
  await tx.runs.recheck([seq]);
  await abandon(tx, seq);
}

const ABANDONED = `SELECT task FROM dibs.child WHERE parent = $1 AND state IS NULL ORDER BY parent, n`;

/** Marks the children of a task whose results are no longer needed. Its family must be locked. */
export async function abandon(tx: Tx, parent: number): Promise<void> {
  if (!tx.runs.holdsFamilies) return;
  for (const { task } of await tx.all<{ task: number }>(ABANDONED, parent)) tx.batch.abandoned.push(task);
}

/** The task begins again without the children that it has spawned. */
export async function forgetChildren(tx: Tx, parent: number): Promise<void> {
  await tx.runs.hold([parent]);
  if (!tx.runs.holdsFamilies) return;
  await abandon(tx, parent);
  dissolve(tx, numbers([parent]));
}

const PARENT = `
  SELECT parent.seq, parent.created_at, queue.name AS queue
  FROM ${rowsBy("child", { task: "$1::int8" })} AS child
  CROSS JOIN ${lookUp("task", "parent.seq = child.parent", { as: "parent", columns: "seq, created_at, queue" })}
  JOIN dibs.queue ON queue.id = parent.queue`;
const COUNTS = `
  SELECT count(*)::int4 AS total, (count(*) FILTER (WHERE state IS NULL))::int4 AS pending
  FROM ${rowsBy("child", { parent: "$1::int8" }, { columns: "state" })} AS child`;

/** What `get` shows of a task's relatives. */
export async function relativesOf(tx: Tx, seq: number): Promise<Pick<TaskRecord, "parent" | "children">> {
  const [parent, children] = await allAnswered([
    tx.get<{ seq: number; created_at: number; queue: string }>(PARENT, seq),
    tx.get<{ total: number; pending: number }>(COUNTS, seq),
  ]);
  return {
    ...(parent && { parent: { id: tx.id(parent.created_at, parent.seq), queue: parent.queue } }),
    ...(children!.total > 0 && { children: children! }),
  };
}

const WAITS_FOR = `
  SELECT scheduled.signal FROM unnest($1::int8[]) AS wanted (task) CROSS JOIN ${TASK_OF("wanted", "queue, coalesce(pos, seq) AS pos")}
  CROSS JOIN ${lookUp("scheduled", { queue: "task.queue", pos: "task.pos" }, { columns: "signal" })}`;

/** The signal for which a task is parked, as stored; the empty text if it is not. */
export async function awaitedSignal(tx: Tx, seq: number): Promise<string> {
  return (await tx.get<{ signal: string | null }>(WAITS_FOR, numbers([seq])))?.signal ?? "";
}
