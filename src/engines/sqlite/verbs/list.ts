import { sizeOfTask } from "../../../core/answer/answer-size.ts";
import type { Page } from "../../../core/answer/page.ts";
import {
  endOfSearch,
  isCompared,
  matchesTask,
  storedHeaderPart,
  storedKeyOf,
  type TaskMatch,
} from "../../../core/task/task-match.ts";
import type { DeadFilter, EndState, Headers, TaskRecord, TaskState } from "../../../core/task/task.ts";
import { cursorOf, nextOf, parseCursor, type SortKey, taskKeyTypes } from "../../../engine/cursor.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { ListRequest } from "../../../engine/engine.ts";
import { deadLetters } from "./dead.ts";
import { record } from "./inspect.ts";
import { findBySeq } from "../line/find-task.ts";
import { readPage } from "../statements/read-page.ts";
import { COUNTED, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Tasks of one state, page by page. */

interface Rows {
  /** The tasks of the page, and one more if there is one; `key` is the position of each in the order. */
  rows: { task: number; key: SortKey }[];
}

/** A page, in the order of service (ready), due time (scheduled, parked), group (waiting), arrival (claimed, verifying) or end. */
export function list(
  tx: Tx,
  { queue: name, state, filter, match, after, limit, payloads = "preview" }: ListRequest,
): Page {
  const start = after === undefined ? undefined : parseCursor(after, taskKeyTypes(state));
  const queue = tx.queues.named(name);
  if (!queue) return { tasks: [], next: null, ...(match && { searched: 0, now: tx.now }) };
  const read = ({ task }: Rows["rows"][number]): TaskRecord => record(tx, findBySeq(tx, task)!, payloads);
  if (match) {
    const { rows, isAll, hits } = search(tx, queue, state, match, start);
    const found = hits.slice(0, limit).map((at) => rows[at]!);
    const tasks = readPage(found, read, sizeOfTask);
    const { searched, isOver } = endOfSearch({ length: rows.length, isAll }, hits, tasks.length);
    return { tasks, searched, now: tx.now, next: isOver ? null : cursorOf(rows[searched - 1]!.key) };
  }
  const { rows } = filter
    ? deadPage(tx, queue, filter, start, limit + 1)
    : PAGES[state](tx, queue, start, limit + 1);
  const tasks = readPage(rows.slice(0, limit), read, sizeOfTask);
  return { tasks, next: nextOf(rows, tasks.length, ({ key }) => key) };
}

const KEY = `SELECT task FROM idempotency WHERE queue = ? AND key = ? AND (forget_at IS NULL OR forget_at > ?)`;
const OF_GROUP = `
  SELECT task, group_key AS a, pos AS b FROM waiting WHERE queue = ? AND group_key = ? AND (group_key, pos) > (?, ?)
  ORDER BY pos LIMIT 0 + ?`;
const MATCHING = `
  SELECT seq, group_key, headers FROM json_each(?) AS wanted CROSS JOIN task ON task.seq = wanted.value
  WHERE (? IS NULL OR group_key = ?) AND (? IS NULL OR instr(headers, ?) > 0)`;

/** The next tasks of the list, at most BOUNDS.search, and the indexes of those that match. */
function search(
  tx: Tx,
  queue: Queue,
  state: TaskState,
  match: TaskMatch,
  start: SortKey | undefined,
): Rows & { isAll: boolean; hits: number[] } {
  const { rows: all } = candidates(tx, queue, state, match, start);
  const rows = all.slice(0, BOUNDS.search);
  const matching = isCompared(match) ? matchingOf(tx, rows, match) : undefined;
  const hits = [...rows.keys()].filter((at) => matching?.has(rows[at]!.task) ?? true);
  return { rows, isAll: rows.length === all.length, hits };
}

function candidates(
  tx: Tx,
  queue: Queue,
  state: TaskState,
  match: TaskMatch,
  start: SortKey | undefined,
): Rows {
  const key = storedKeyOf(match);
  if (key !== undefined) return byKey(tx, queue, state, key, start);
  const { groupKey } = match;
  if (state !== "waiting" || groupKey === undefined) return PAGES[state](tx, queue, start, BOUNDS.search + 1);
  const [group, pos] = start ?? ["", 0];
  return inOrder(tx.all<KeyRow>(OF_GROUP, queue.id, groupKey, group!, pos!, BOUNDS.search + 1));
}

/** At most one. It is the whole list, so nothing comes after it. */
function byKey(tx: Tx, queue: Queue, state: TaskState, key: string, start: SortKey | undefined): Rows {
  const row = start ? undefined : tx.get<{ task: number }>(KEY, queue.id, key, tx.now);
  const isThere = row && findBySeq(tx, row.task)?.place.state === state;
  return { rows: isThere ? [{ task: row.task, key: [] }] : [] };
}

function matchingOf(tx: Tx, rows: Rows["rows"], match: TaskMatch): Set<number> {
  const { groupKey = null } = match;
  const part = storedHeaderPart(match);
  const seqs = JSON.stringify(rows.map(({ task }) => task));
  const found = tx.all<{ seq: number; group_key: string | null; headers: string | null }>(
    ...([MATCHING, seqs, groupKey, groupKey, part, part] as const),
  );
  const matching = found.filter((row) => {
    const headers = row.headers === null ? {} : (JSON.parse(row.headers) as Headers);
    return matchesTask(match, { groupKey: row.group_key, headers });
  });
  return new Set(matching.map(({ seq }) => seq));
}

type Turn = (tx: Tx, queue: Queue, start: SortKey | undefined, limit: number) => Rows;

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

function inOrder(rows: KeyRow[]): Rows {
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

function deadPage(tx: Tx, queue: Queue, filter: DeadFilter, start: SortKey | undefined, limit: number): Rows {
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
