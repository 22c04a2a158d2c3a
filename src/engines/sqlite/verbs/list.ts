import { sizeOfTask } from "../../../core/answer-size.ts";
import type { DeadFilter, EndState, TaskRecord, TaskState } from "../../../core/task.ts";
import { nextOf, parseCursor, type SortKey, taskKeyTypes } from "../../../engine/cursor.ts";
import type { ListRequest } from "../../../engine/engine.ts";
import { deadLetters } from "./dead.ts";
import { record } from "./inspect.ts";
import { findBySeq } from "../line/find-task.ts";
import { readPage } from "../statements/read-page.ts";
import { COUNTED, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Tasks of one state, page by page. */

interface Page {
  /** The tasks of the page, and one more if there is one; `key` is the position of each in the order. */
  rows: { task: number; key: SortKey }[];
}

/** A page, in the order of service (ready), due time (scheduled, parked), group (waiting), arrival (claimed, verifying) or end. */
export function list(
  tx: Tx,
  { queue: name, state, filter, after, limit, payloads = "preview" }: ListRequest,
): { tasks: TaskRecord[]; next: string | null } {
  const start = after === undefined ? undefined : parseCursor(after, taskKeyTypes(state));
  const queue = tx.queues.named(name);
  if (!queue) return { tasks: [], next: null };
  const { rows } = filter
    ? deadPage(tx, queue, filter, start, limit + 1)
    : PAGES[state](tx, queue, start, limit + 1);
  const read = ({ task }: Page["rows"][number]): TaskRecord => record(tx, findBySeq(tx, task)!, payloads);
  const tasks = readPage(rows.slice(0, limit), read, sizeOfTask);
  return { tasks, next: nextOf(rows, tasks.length, ({ key }) => key) };
}

type Turn = (tx: Tx, queue: Queue, start: SortKey | undefined, limit: number) => Page;

/** Below every number of a key. */
const FIRST = Number.MIN_SAFE_INTEGER;

const READY = `
  SELECT task, rank AS a, pos AS b FROM ready WHERE queue = ? AND (rank, pos) > (?, ?) ORDER BY rank, pos LIMIT 0 + ?`;
const ELSEWHERE = `
  SELECT task, rank AS a, pos AS b FROM ready_elsewhere WHERE queue = ? AND (rank, pos) > (?, ?) ORDER BY rank, pos LIMIT 0 + ?`;
const STICKY = `
  SELECT task, rank AS a, pos AS b FROM ready_sticky WHERE queue = ? AND (rank, pos) > (?, ?) ORDER BY rank, pos LIMIT 0 + ?`;
const SCHEDULED = `
  SELECT task, due AS a, task AS b FROM scheduled INDEXED BY scheduled_due
  WHERE queue = ? AND (due, task) > (?, ?) AND signal IS NULL ORDER BY due, task LIMIT 0 + ?`;
const PARKED = `
  SELECT task, due AS a, task AS b FROM scheduled INDEXED BY scheduled_due
  WHERE queue = ? AND (due, task) > (?, ?) AND signal IS NOT NULL ORDER BY due, task LIMIT 0 + ?`;
const WAITING = `
  SELECT task, group_key AS a, pos AS b FROM waiting WHERE queue = ? AND (group_key, pos) > (?, ?)
  ORDER BY group_key, pos LIMIT 0 + ?`;
const CLAIMED = `SELECT task FROM claim WHERE queue = ? AND task > ? ORDER BY task LIMIT 0 + ?`;
const VERIFYING = `SELECT task FROM verifying WHERE queue = ? AND task > ? ORDER BY task LIMIT 0 + ?`;
const DONE = `
  SELECT task, ended_at AS a, task AS b FROM ended INDEXED BY ended_order
  WHERE queue = ? AND (ended_at, task) > (?, ?) AND state = ? ORDER BY ended_at, task LIMIT 0 + ?`;
const UNDONE = `
  SELECT task, ended_at AS a, task AS b FROM ended INDEXED BY ended_undone
  WHERE queue = ? AND (ended_at, task) > (?, ?) AND state = ? AND state <> 'done' ORDER BY ended_at, task LIMIT 0 + ?`;

interface KeyRow {
  task: number;
  a: number | string;
  b: number;
}

function inOrder(rows: KeyRow[]): Page {
  return { rows: rows.map(({ task, a, b }) => ({ task, key: [a, b] })) };
}

function endedPage(state: Exclude<EndState, "dead">): Turn {
  return (tx, queue, start = [FIRST, 0], limit) =>
    inOrder(tx.all<KeyRow>(state === "done" ? DONE : UNDONE, queue.id, start[0]!, start[1]!, state, limit));
}

function byTask(sql: string): Turn {
  return (tx, queue, start = [0], limit) => {
    const rows = tx.all<{ task: number }>(sql, queue.id, start[0]!, limit);
    return { rows: rows.map(({ task }) => ({ task, key: [task] })) };
  };
}

function deadPage(tx: Tx, queue: Queue, filter: DeadFilter, start: SortKey | undefined, limit: number): Page {
  const rows = deadLetters(tx, queue, filter, start as [number, number] | undefined, limit);
  return { rows: rows.map(({ task, died_at: diedAt }) => ({ task, key: [diedAt, task] })) };
}

const PAGES: Record<TaskState, Turn> = {
  ready: (tx, queue, start = [FIRST, 0], limit) => {
    const tables = queue.lanes === COUNTED ? [READY, ELSEWHERE, STICKY] : [READY, ELSEWHERE];
    const lines = tables.flatMap((sql) => tx.all<KeyRow>(sql, queue.id, start[0]!, start[1]!, limit));
    return inOrder(lines.sort((x, y) => (x.a as number) - (y.a as number) || x.b - y.b).slice(0, limit));
  },
  scheduled: (tx, queue, start = [FIRST, 0], limit) =>
    inOrder(tx.all<KeyRow>(SCHEDULED, queue.id, start[0]!, start[1]!, limit)),
  parked: (tx, queue, start = [FIRST, 0], limit) =>
    inOrder(tx.all<KeyRow>(PARKED, queue.id, start[0]!, start[1]!, limit)),
  waiting: (tx, queue, start = ["", 0], limit) =>
    inOrder(tx.all<KeyRow>(WAITING, queue.id, start[0]!, start[1]!, limit)),
  claimed: byTask(CLAIMED),
  verifying: byTask(VERIFYING),
  done: endedPage("done"),
  cancelled: endedPage("cancelled"),
  expired: endedPage("expired"),
  dead: (tx, queue, start, limit) => deadPage(tx, queue, {}, start, limit),
};
