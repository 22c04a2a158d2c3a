import { fitting } from "../../../core/answer/answer-size.ts";
import type { Page } from "../../../core/answer/page.ts";
import type { Payloads } from "../../../core/answer/preview.ts";
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
import { lookUp } from "../statements/look-up.ts";
import { numbers } from "../statements/text.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { deadLetters } from "./dead.ts";
import { records, sizesOf } from "./inspect.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { findMany } from "../line/find-task.ts";
import type { Tx } from "../transaction/tx.ts";

/** A page, in the order of service (ready), due time (scheduled, parked), group (waiting), arrival (claimed, verifying) or end. */
export async function list(
  tx: Tx,
  { queue: name, state, filter, match, after, limit, payloads = "preview" }: ListRequest,
): Promise<Page> {
  const start = after === undefined ? undefined : parseCursor(after, taskKeyTypes(state));
  const queue = tx.queues.named(name);
  if (!queue) return { tasks: [], next: null, ...(match && { searched: 0, now: tx.now }) };
  if (match) {
    const { rows, isAll, hits } = await search(tx, queue, state, match, start);
    const found = hits.slice(0, limit).map((at) => rows[at]!);
    const { tasks, count } = await readPage(tx, found, payloads);
    const { searched, isOver } = endOfSearch({ length: rows.length, isAll }, hits, count);
    return { tasks, searched, now: tx.now, next: isOver ? null : cursorOf(rows[searched - 1]!.key) };
  }
  const rows = filter
    ? await deadPage(tx, queue, filter, start, limit + 1)
    : await page(tx, queue, state, start, limit + 1);
  const { tasks, count } = await readPage(tx, rows.slice(0, limit), payloads);
  return { tasks, next: nextOf(rows, count, ({ key }) => key) };
}

/** The first of these that fit into one answer. `count` includes those that were removed meanwhile. */
async function readPage(
  tx: Tx,
  rows: Listed[],
  payloads: Payloads,
): Promise<{ tasks: TaskRecord[]; count: number }> {
  const wanted = rows.map(({ task }) => task);
  // Sizes are read before payloads: what does not fit never leaves the server.
  const sizes = await sizesOf(tx, wanted, payloads);
  const page = fitting(wanted, (task) => sizes.get(task) ?? 0);
  return { tasks: await records(tx, await findMany(tx, page), payloads), count: page.length };
}

const KEY = `
  SELECT task FROM dibs.idempotency WHERE queue = $1 AND key = $2 AND (forget_at IS NULL OR forget_at > $3)`;
const OF_GROUP = `
  SELECT task, group_key, pos FROM dibs.waiting
  WHERE queue = $1 AND group_key = $2 AND (group_key, pos) > ($3::text, $4::int8) ORDER BY pos LIMIT $5`;
const MATCHING = `
  SELECT task.seq, task.group_key, task.headers
  FROM unnest($1::int8[]) AS wanted (seq)
  CROSS JOIN ${lookUp("task", "task.seq = wanted.seq", { columns: "seq, group_key, headers" })}
  WHERE ($2::text IS NULL OR task.group_key = $2) AND ($3::text IS NULL OR strpos(task.headers, $3) > 0)`;

/** The next tasks of the list, at most BOUNDS.search, and the indexes of those that match. */
async function search(
  tx: Tx,
  queue: Queue,
  state: TaskState,
  match: TaskMatch,
  start: SortKey | undefined,
): Promise<{ rows: Listed[]; isAll: boolean; hits: number[] }> {
  const all = await candidates(tx, queue, state, match, start);
  const rows = all.slice(0, BOUNDS.search);
  const matching = isCompared(match) ? await matchingOf(tx, rows, match) : undefined;
  const hits = [...rows.keys()].filter((at) => matching?.has(rows[at]!.task) ?? true);
  return { rows, isAll: rows.length === all.length, hits };
}

async function candidates(
  tx: Tx,
  queue: Queue,
  state: TaskState,
  match: TaskMatch,
  start: SortKey | undefined,
): Promise<Listed[]> {
  const key = storedKeyOf(match);
  if (key !== undefined) return byKey(tx, queue, state, key, start);
  const { groupKey } = match;
  if (state !== "waiting" || groupKey === undefined) return page(tx, queue, state, start, BOUNDS.search + 1);
  const from = start ?? firstKey("waiting");
  const rows = await tx.rows<ListedRow>(OF_GROUP, queue.id, groupKey, ...from, BOUNDS.search + 1);
  return mergeLists([rows], rows.length);
}

/** At most one. It is the whole list, so nothing comes after it. */
async function byKey(
  tx: Tx,
  queue: Queue,
  state: TaskState,
  key: string,
  start: SortKey | undefined,
): Promise<Listed[]> {
  const row = start ? undefined : await tx.get<{ task: number }>(KEY, queue.id, key, tx.now);
  const found = row && (await findMany(tx, [row.task]))[0];
  return found?.place.state === state ? [{ task: found.seq, key: [] }] : [];
}

async function matchingOf(tx: Tx, listed: readonly Listed[], match: TaskMatch): Promise<Set<number>> {
  const rows = await tx.all<ComparedRow>(
    MATCHING,
    numbers(listed.map(({ task }) => task)),
    match.groupKey ?? null,
    storedHeaderPart(match),
  );
  return matchingTasks(rows, match);
}

const TYPES = { number: "int8", string: "text" } as const;
const pageSql = (state: ListedState): string[] => {
  const { tables, by, only } = TASK_LISTS[state];
  const columns = by.join(", ");
  const start = taskKeyTypes(state).map((type, i) => `$${i + 2}::${TYPES[type]}`);
  return tables.map(
    (table) => `
  SELECT task, ${columns} FROM dibs.${table} WHERE queue = $1 AND (${columns}) > (${start.join(", ")})
    ${only === undefined ? "" : `AND ${only}`}
  ORDER BY ${columns} LIMIT $${by.length + 2}`,
  );
};
const PAGES = Object.fromEntries(
  (Object.keys(TASK_LISTS) as ListedState[]).map((state) => [state, pageSql(state)]),
) as Record<ListedState, string[]>;

/** The tasks of a page, and one more if there is one. */
async function page(
  tx: Tx,
  queue: Queue,
  state: TaskState,
  start: SortKey | undefined,
  limit: number,
): Promise<Listed[]> {
  if (state === "dead") return deadPage(tx, queue, {}, start, limit);
  const from = start ?? firstKey(state);
  const tables = PAGES[state].map((sql) => tx.rows<ListedRow>(sql, queue.id, ...from, limit));
  return mergeLists(await allAnswered(tables), limit);
}

async function deadPage(
  tx: Tx,
  queue: Queue,
  filter: DeadFilter,
  start: SortKey | undefined,
  limit: number,
): Promise<Listed[]> {
  const rows = await deadLetters(tx, queue, filter, start as [number, number] | undefined, limit);
  return rows.map(({ task, died_at: diedAt }) => ({ task, key: [diedAt, task] }));
}
