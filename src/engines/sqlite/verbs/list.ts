import { sizeOfTask } from "../../../core/answer/answer-size.ts";
import type { Page } from "../../../core/answer/page.ts";
import {
  endOfSearch,
  isCompared,
  storedHeaderPart,
  storedKeyOf,
  type TaskMatch,
} from "../../../core/task/task-match.ts";
import type { DeadFilter, TaskRecord, TaskState } from "../../../core/task/task.ts";
import { cursorOf, nextOf, parseCursor, type SortKey, taskKeyTypes } from "../../../engine/cursor.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { ListRequest } from "../../../engine/engine.ts";
import {
  type ComparedRow,
  firstKey,
  type Listed,
  type ListedRow,
  type ListedState,
  matchingTasks,
  mergeLists,
  TASK_LISTS,
} from "../../../engine/task-lists.ts";
import { deadLetters } from "./dead.ts";
import { record } from "./inspect.ts";
import { findBySeq } from "../line/find-task.ts";
import { readPage } from "../statements/read-page.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Tasks of one state, page by page. */

/** A page, in the order of service (ready), due time (scheduled, parked), group (waiting), arrival (claimed, verifying) or end. */
export function list(
  tx: Tx,
  { queue: name, state, filter, match, after, limit, payloads = "preview" }: ListRequest,
): Page {
  const start = after === undefined ? undefined : parseCursor(after, taskKeyTypes(state));
  const queue = tx.queues.named(name);
  if (!queue) return { tasks: [], next: null, ...(match && { searched: 0, now: tx.now }) };
  const read = ({ task }: Listed): TaskRecord => record(tx, findBySeq(tx, task)!, payloads);
  if (match) {
    const { rows, isAll, hits } = search(tx, queue, state, match, start);
    const found = hits.slice(0, limit).map((at) => rows[at]!);
    const tasks = readPage(found, read, sizeOfTask);
    const { searched, isOver } = endOfSearch({ length: rows.length, isAll }, hits, tasks.length);
    return { tasks, searched, now: tx.now, next: isOver ? null : cursorOf(rows[searched - 1]!.key) };
  }
  const rows = filter
    ? deadPage(tx, queue, filter, start, limit + 1)
    : page(tx, queue, state, start, limit + 1);
  const tasks = readPage(rows.slice(0, limit), read, sizeOfTask);
  return { tasks, next: nextOf(rows, tasks.length, ({ key }) => key) };
}

const KEY = `SELECT task FROM idempotency WHERE queue = ? AND key = ? AND (forget_at IS NULL OR forget_at > ?)`;
const OF_GROUP = `
  SELECT task, group_key, pos FROM waiting WHERE queue = ? AND group_key = ? AND (group_key, pos) > (?, ?)
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
): { rows: Listed[]; isAll: boolean; hits: number[] } {
  const all = candidates(tx, queue, state, match, start);
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
): Listed[] {
  const key = storedKeyOf(match);
  if (key !== undefined) return byKey(tx, queue, state, key, start);
  const { groupKey } = match;
  if (state !== "waiting" || groupKey === undefined) return page(tx, queue, state, start, BOUNDS.search + 1);
  const from = start ?? firstKey("waiting");
  return mergeLists(
    [tx.rows<ListedRow>(OF_GROUP, queue.id, groupKey, ...from, BOUNDS.search + 1)],
    BOUNDS.search + 1,
  );
}

/** At most one. It is the whole list, so nothing comes after it. */
function byKey(tx: Tx, queue: Queue, state: TaskState, key: string, start: SortKey | undefined): Listed[] {
  const row = start ? undefined : tx.get<{ task: number }>(KEY, queue.id, key, tx.now);
  const isThere = row && findBySeq(tx, row.task)?.place.state === state;
  return isThere ? [{ task: row.task, key: [] }] : [];
}

function matchingOf(tx: Tx, listed: readonly Listed[], match: TaskMatch): Set<number> {
  const { groupKey = null } = match;
  const part = storedHeaderPart(match);
  const seqs = JSON.stringify(listed.map(({ task }) => task));
  const rows = tx.all<ComparedRow>(MATCHING, seqs, groupKey, groupKey, part, part);
  return matchingTasks(rows, match);
}

/** SQLite has no statistics to choose by. */
const INDEXES: Partial<Record<ListedState, string>> = {
  ...{ scheduled: "scheduled_due", parked: "scheduled_due" },
  ...{ done: "ended_order", cancelled: "ended_undone", expired: "ended_undone" },
};
const pageSql = (state: ListedState): string[] => {
  const { tables, by, only } = TASK_LISTS[state];
  const columns = by.join(", ");
  const start = by.map(() => "?").join(", ");
  const index = INDEXES[state] === undefined ? "" : ` INDEXED BY ${INDEXES[state]}`;
  return tables.map(
    (table) => `
  SELECT task, ${columns} FROM ${table}${index} WHERE queue = ? AND (${columns}) > (${start})
  ${only === undefined ? "" : `AND ${only}`} ORDER BY ${columns} LIMIT 0 + ?`,
  );
};
const PAGES = Object.fromEntries(
  (Object.keys(TASK_LISTS) as ListedState[]).map((state) => [state, pageSql(state)]),
) as Record<ListedState, string[]>;

/** The tasks of a page, and one more if there is one. */
function page(tx: Tx, queue: Queue, state: TaskState, start: SortKey | undefined, limit: number): Listed[] {
  if (state === "dead") return deadPage(tx, queue, {}, start, limit);
  const from = start ?? firstKey(state);
  return mergeLists(
    PAGES[state].map((sql) => tx.rows<ListedRow>(sql, queue.id, ...from, limit)),
    limit,
  );
}

function deadPage(
  tx: Tx,
  queue: Queue,
  filter: DeadFilter,
  start: SortKey | undefined,
  limit: number,
): Listed[] {
  const rows = deadLetters(tx, queue, filter, start as [number, number] | undefined, limit);
  return rows.map(({ task, died_at: diedAt }) => ({ task, key: [diedAt, task] }));
}
