import { type ChildEnd, type ChildRecord, shownName, sizeOfChild } from "../../../core/handler/children.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import type { Body, EndState, TaskError, TaskState } from "../../../core/task/task.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { findBySeq, findTask } from "../line/find-task.ts";
import { bodyFrom } from "../statements/body.ts";
import { readPage } from "../statements/read-page.ts";
import type { Tx } from "../transaction/tx.ts";
import { lastAttempt } from "./inspect.ts";

/** The verb `children`. */

const PAGE = `
  SELECT task, n, created_at, name, queue, state, ended_at FROM child WHERE parent = ? AND n > ? ORDER BY n LIMIT 0 + ?`;
const STATE = `SELECT state FROM child WHERE task = ?`;

interface ChildRow {
  task: number;
  n: number;
  created_at: number;
  name: string;
  queue: string;
  state: EndState | null;
  ended_at: number | null;
}

export function children(
  tx: Tx,
  { id, after = 0, limit, ends }: Verbs["children"]["in"],
): Verbs["children"]["out"] {
  const parent = findTask(tx, id);
  if (!parent) throw taskNotFound(id);
  const rows = tx.all<ChildRow>(PAGE, parent.seq, after, limit + 1);
  const page = readPage(rows.slice(0, limit), (row) => describe(tx, row, ends), sizeOfChild);
  return { children: page, next: page.length < rows.length ? page.at(-1)!.n : null };
}

function describe(tx: Tx, row: ChildRow, ends?: true): ChildRecord | ChildEnd {
  const { task, queue, n, created_at: createdAt, ended_at: endedAt } = row;
  const state = row.state ?? findBySeq(tx, task)!.place.state;
  const id = tx.id(createdAt, task);
  const record = { id, queue, n, name: shownName(row.name), state, createdAt, endedAt };
  return ends ? { ...record, ...outcomeOf(tx, task) } : record;
}

const RESULT = `SELECT result FROM ended WHERE task = ?`;
const KEPT = `SELECT error, result FROM child WHERE task = ?`;
const IS_DEAD = `SELECT 1 FROM dead WHERE task = ?`;

/** From the task's own rows while it exists. */
function outcomeOf(tx: Tx, task: number): Pick<ChildEnd, "result" | "error"> {
  const ended = tx.get<{ result: Body | null }>(RESULT, task);
  if (ended) return { result: bodyFrom(ended.result), error: null };
  if (tx.get(IS_DEAD, task)) {
    const { fingerprint: _, ...cause } = lastAttempt(tx, task)!.error!;
    return { result: null, error: cause };
  }
  const { error, result } = tx.get<{ error: string | null; result: Body | null }>(KEPT, task)!;
  return { result: bodyFrom(result), error: error === null ? null : (JSON.parse(error) as TaskError) };
}

/** Of a child whose task may have been removed. */
export function stateOfChild(tx: Tx, seq: number): TaskState {
  return findBySeq(tx, seq)?.place.state ?? tx.get<{ state: EndState }>(STATE, seq)!.state;
}
