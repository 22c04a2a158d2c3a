import { fitting } from "../../../core/answer-size.ts";
import type { DeadFilter, EndState, TaskRecord, TaskState } from "../../../core/task.ts";
import { nextOf, parseCursor, type SortKey, taskKeyTypes } from "../../../engine/cursor.ts";
import type { ListRequest } from "../../../engine/engine.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { deadLetters } from "./dead.ts";
import { records, sizesOf } from "./inspect.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { findMany } from "../line/find-task.ts";
import type { Tx } from "../transaction/tx.ts";

/** The tasks of the page, and one more if there is one; `key` is the position of each in the order. */
type Page = { task: number; key: SortKey }[];

/** A page, in the order of service (ready), due time (scheduled, parked), group (waiting), arrival (claimed, verifying) or end. */
export async function list(
  tx: Tx,
  { queue: name, state, filter, after, limit, payloads = "preview" }: ListRequest,
): Promise<{ tasks: TaskRecord[]; next: string | null }> {
  const start = after === undefined ? undefined : parseCursor(after, taskKeyTypes(state));
  const queue = tx.queues.named(name);
  if (!queue) return { tasks: [], next: null };
  const rows = filter
    ? await deadPage(tx, queue, filter, start, limit + 1)
    : await PAGES[state](tx, queue, start, limit + 1);
  const wanted = rows.slice(0, limit).map(({ task }) => task);
  // Sizes are read before payloads: what does not fit never leaves the server.
  const sizes = await sizesOf(tx, wanted, payloads);
  const page = fitting(wanted, (task) => sizes.get(task) ?? 0);
  return {
    tasks: await records(tx, await findMany(tx, page), payloads),
    next: nextOf(rows, page.length, ({ key }) => key),
  };
}

type Turn = (tx: Tx, queue: Queue, start: SortKey | undefined, limit: number) => Promise<Page>;

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

function inOrder(rows: KeyRow[]): Page {
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
): Promise<Page> {
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
