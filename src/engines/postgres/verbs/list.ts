import { fitting } from "../../../core/answer/answer-size.ts";
import type { Page } from "../../../core/answer/page.ts";
import type { Payloads } from "../../../core/answer/preview.ts";
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
import { lookUp } from "../statements/look-up.ts";
import { numbers } from "../statements/text.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { deadLetters } from "./dead.ts";
import { records, sizesOf } from "./inspect.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { findMany } from "../line/find-task.ts";
import type { Tx } from "../transaction/tx.ts";

/** The tasks of the page, and one more if there is one; `key` is the position of each in the order. */
type Rows = { task: number; key: SortKey }[];

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
    : await PAGES[state](tx, queue, start, limit + 1);
  const { tasks, count } = await readPage(tx, rows.slice(0, limit), payloads);
  return { tasks, next: nextOf(rows, count, ({ key }) => key) };
}

/** The first of these that fit into one answer. `count` includes those that were removed meanwhile. */
async function readPage(
  tx: Tx,
  rows: Rows,
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
  SELECT task, group_key AS a, pos AS b FROM dibs.waiting
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
): Promise<{ rows: Rows; isAll: boolean; hits: number[] }> {
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
): Promise<Rows> {
  const key = storedKeyOf(match);
  if (key !== undefined) return byKey(tx, queue, state, key, start);
  const { groupKey } = match;
  if (state !== "waiting" || groupKey === undefined) return PAGES[state](tx, queue, start, BOUNDS.search + 1);
  const [group, pos] = start ?? ["", 0];
  return inOrder(await tx.all<KeyRow>(OF_GROUP, queue.id, groupKey, group!, pos!, BOUNDS.search + 1));
}

/** At most one. It is the whole list, so nothing comes after it. */
async function byKey(
  tx: Tx,
  queue: Queue,
  state: TaskState,
  key: string,
  start: SortKey | undefined,
): Promise<Rows> {
  const row = start ? undefined : await tx.get<{ task: number }>(KEY, queue.id, key, tx.now);
  const found = row && (await findMany(tx, [row.task]))[0];
  return found?.place.state === state ? [{ task: found.seq, key: [] }] : [];
}

async function matchingOf(tx: Tx, rows: Rows, match: TaskMatch): Promise<Set<number>> {
  const found = await tx.all<{ seq: number; group_key: string | null; headers: string | null }>(
    MATCHING,
    numbers(rows.map(({ task }) => task)),
    match.groupKey ?? null,
    storedHeaderPart(match),
  );
  const matching = found.filter((row) => {
    const headers = row.headers === null ? {} : (JSON.parse(row.headers) as Headers);
    return matchesTask(match, { groupKey: row.group_key, headers });
  });
  return new Set(matching.map(({ seq }) => seq));
}

type Turn = (tx: Tx, queue: Queue, start: SortKey | undefined, limit: number) => Promise<Rows>;

/** Below every number of a key. */
const FIRST = Number.MIN_SAFE_INTEGER;

const READY = `
  SELECT task, rank AS a, pos AS b FROM dibs.ready WHERE queue = $1 AND (rank, pos) > ($2::int8, $3::int8)
  ORDER BY rank, pos LIMIT $4`;
const ELSEWHERE = READY.replace("dibs.ready", "dibs.ready_elsewhere");
const STICKY = READY.replace("dibs.ready", "dibs.ready_sticky");
const SCHEDULED = `
  SELECT task, due AS a, task AS b FROM dibs.scheduled
  WHERE queue = $1 AND (due, task) > ($2::int8, $3::int8) AND signal IS NULL ORDER BY due, task LIMIT $4`;
const PARKED = `
  SELECT task, due AS a, task AS b FROM dibs.scheduled
  WHERE queue = $1 AND (due, task) > ($2::int8, $3::int8) AND signal IS NOT NULL ORDER BY due, task LIMIT $4`;
const WAITING = `
  SELECT task, group_key AS a, pos AS b FROM dibs.waiting WHERE queue = $1 AND (group_key, pos) > ($2::text, $3::int8)
  ORDER BY group_key, pos LIMIT $4`;
const CLAIMED = `SELECT task FROM dibs.claim WHERE queue = $1 AND task > $2 ORDER BY task LIMIT $3`;
const VERIFYING = `SELECT task FROM dibs.verifying WHERE queue = $1 AND task > $2 ORDER BY task LIMIT $3`;
const DONE = `
  SELECT task, ended_at AS a, task AS b FROM dibs.ended
  WHERE queue = $1 AND (ended_at, task) > ($2::int8, $3::int8) AND state = $4 ORDER BY ended_at, task LIMIT $5`;
const UNDONE = `
  SELECT task, ended_at AS a, task AS b FROM dibs.ended
  WHERE queue = $1 AND (ended_at, task) > ($2::int8, $3::int8) AND state = $4 AND state <> 'done'
  ORDER BY ended_at, task LIMIT $5`;

interface KeyRow {
  task: number;
  a: number | string;
  b: number;
}

function inOrder(rows: KeyRow[]): Rows {
  return rows.map(({ task, a, b }) => ({ task, key: [a, b] }));
}

function endedPage(state: Exclude<EndState, "dead">): Turn {
  const sql = state === "done" ? DONE : UNDONE;
  return async (tx, queue, start = [FIRST, 0], limit) =>
    inOrder(await tx.all<KeyRow>(sql, queue.id, start[0]!, start[1]!, state, limit));
}

function byTask(sql: string): Turn {
  return async (tx, queue, start = [0], limit) => {
    const rows = await tx.all<{ task: number }>(sql, queue.id, start[0]!, limit);
    return rows.map(({ task }) => ({ task, key: [task] }));
  };
}

async function deadPage(
  tx: Tx,
  queue: Queue,
  filter: DeadFilter,
  start: SortKey | undefined,
  limit: number,
): Promise<Rows> {
  const rows = await deadLetters(tx, queue, filter, start as [number, number] | undefined, limit);
  return rows.map(({ task, died_at: diedAt }) => ({ task, key: [diedAt, task] }));
}

const PAGES: Record<TaskState, Turn> = {
  ready: async (tx, queue, start = [FIRST, 0], limit) => {
    const rows = await allAnswered(
      [READY, ELSEWHERE, ...(queue.limited ? [STICKY] : [])].map((sql) =>
        tx.all<KeyRow>(sql, queue.id, start[0]!, start[1]!, limit),
      ),
    );
    const line = rows.flat().sort((x, y) => (x.a as number) - (y.a as number) || x.b - y.b);
    return inOrder(line.slice(0, limit));
  },
  scheduled: async (tx, queue, start = [FIRST, 0], limit) =>
    inOrder(await tx.all<KeyRow>(SCHEDULED, queue.id, start[0]!, start[1]!, limit)),
  waiting: async (tx, queue, start = ["", 0], limit) =>
    inOrder(await tx.all<KeyRow>(WAITING, queue.id, start[0]!, start[1]!, limit)),
  parked: async (tx, queue, start = [FIRST, 0], limit) =>
    inOrder(await tx.all<KeyRow>(PARKED, queue.id, start[0]!, start[1]!, limit)),
  claimed: byTask(CLAIMED),
  verifying: byTask(VERIFYING),
  done: endedPage("done"),
  cancelled: endedPage("cancelled"),
  expired: endedPage("expired"),
  dead: (tx, queue, start, limit) => deadPage(tx, queue, {}, start, limit),
};
