import { countFitting, AnswerSize, ROW_BYTES } from "../../../core/answer/answer-size.ts";
import { type ChildEnd, type ChildRecord, shownName } from "../../../core/handler/children.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import type { EndState, TaskError, TaskState } from "../../../core/task/task.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { errorFromCell } from "../flows/child-error.ts";
import { findMany, findTask } from "../line/find-task.ts";
import { lookUp, rowsOf } from "../statements/look-up.ts";
import { fromColumns, fromText, numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verb `children`. */

const OUTCOME = `
  LEFT JOIN ${lookUp("ended", { task: "child.task" }, { columns: "result, result_bytes" })} ON true
  LEFT JOIN ${lookUp("dead", { task: "child.task" }, { columns: "task, fence" })} ON true
  LEFT JOIN ${lookUp("attempt", "attempt.task = dead.task AND attempt.fence = dead.fence")} ON true`;
const SIZE = (...columns: string[]): string =>
  columns.map((column) => `coalesce(octet_length(${column}), 0)`).join(" + ");
// The numbers have no gaps.
const PAGE = `
  SELECT child.task, n, child.created_at, child.name, child.queue, child.state, child.ended_at,
    ${SIZE("ended.result", "ended.result_bytes", "child.result", "child.result_bytes", "child.error", "attempt.message", "attempt.stack")} AS size
  FROM dibs.child ${OUTCOME}
  WHERE child.parent = $1 AND n BETWEEN $2 AND $3 ORDER BY child.parent, n`;
const OUTCOMES = `
  SELECT child.task, child.error, coalesce(ended.result, child.result) AS result,
    coalesce(ended.result_bytes, child.result_bytes) AS result_bytes, attempt.name, attempt.message, attempt.stack
  FROM ${rowsOf("child", "$1::int8[]")} AS child ${OUTCOME}`;
const STATES = `SELECT task, state FROM ${rowsOf("child", "$1::int8[]", "task, state")} AS child WHERE state IS NOT NULL`;

interface ChildRow {
  task: number;
  n: number;
  created_at: number;
  name: string;
  queue: string;
  state: EndState | null;
  ended_at: number | null;
  size: number;
}

interface OutcomeRow {
  task: number;
  error: string | null;
  result: string | null;
  result_bytes: Uint8Array | null;
  name: string | null;
  message: string;
  stack: string | null;
}

export async function children(
  tx: Tx,
  { id, after = 0, limit, ends }: Verbs["children"]["in"],
): Promise<Verbs["children"]["out"]> {
  const parent = await findTask(tx, id);
  if (!parent) throw taskNotFound(id);
  const rows = await tx.all<ChildRow>(PAGE, parent.seq, after + 1, after + limit + 1);
  const sizeOf = ({ size }: ChildRow) => ROW_BYTES + (ends ? size : 0);
  const page = rows.slice(0, countFitting(rows.slice(0, limit), sizeOf, new AnswerSize()));
  const states = await pendingStates(tx, page);
  const outcomes = ends ? await outcomesOf(tx, page) : undefined;
  return {
    children: page.map((row) => {
      const record = describe(tx, row, states);
      return outcomes ? { ...record, ...outcomes.get(row.task)! } : record;
    }),
    next: page.length < rows.length ? page.at(-1)!.n : null,
  };
}

function describe(tx: Tx, row: ChildRow, states: Map<number, TaskState>): ChildRecord {
  const { task, queue, n, created_at: createdAt, ended_at: endedAt } = row;
  // One that was removed since the first statement.
  const state = row.state ?? states.get(task) ?? "cancelled";
  return {
    ...{ id: tx.id(createdAt, task), queue, n, name: shownName(fromText(row.name)) },
    ...{ state, createdAt, endedAt },
  };
}

async function pendingStates(tx: Tx, rows: readonly ChildRow[]): Promise<Map<number, TaskState>> {
  const pending = rows.flatMap(({ task, state }) => (state === null ? task : []));
  return new Map((await findMany(tx, pending)).map(({ seq, place }) => [seq, place.state]));
}

/** From the tasks' own rows while they exist. */
async function outcomesOf(
  tx: Tx,
  page: readonly ChildRow[],
): Promise<Map<number, Pick<ChildEnd, "result" | "error">>> {
  const rows = await tx.all<OutcomeRow>(OUTCOMES, numbers(page.map(({ task }) => task)));
  return new Map(
    rows.map((row) => [
      row.task,
      { result: fromColumns(row.result, row.result_bytes), error: errorFrom(row) },
    ]),
  );
}

function errorFrom({ error, name, message, stack }: OutcomeRow): TaskError | null {
  if (name === null) return errorFromCell(error);
  return { name: fromText(name), message: fromText(message), stack: stack === null ? null : fromText(stack) };
}

/** Of children whose tasks may have been removed. */
export async function statesOfChildren(tx: Tx, seqs: readonly number[]): Promise<Map<number, TaskState>> {
  const ended = await tx.all<{ task: number; state: EndState }>(STATES, numbers(seqs));
  const states = new Map<number, TaskState>(ended.map(({ task, state }) => [task, state]));
  for (const { seq, place } of await findMany(
    tx,
    seqs.filter((seq) => !states.has(seq)),
  ))
    states.set(seq, place.state);
  return states;
}
