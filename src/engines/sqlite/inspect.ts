import { invalid } from "../../core/errors.ts";
import { describeFlow, type Flow, noFlow } from "../../core/flow.ts";
import { show } from "../../core/show.ts";
import { taskNotFound } from "../../core/task-not-found.ts";
import {
  type Attempt,
  type AttemptOutcome,
  type Body,
  type DeadFilter,
  type EndState,
  fromRank,
  type Headers,
  isEnd,
  JSON_TYPE,
  NO_DEPTH,
  type QueueStats,
  type TaskEnd,
  type TaskError,
  type TaskRecord,
  type TaskState,
} from "../../core/task.ts";
import type { Verified } from "../../core/verification.ts";
import { BOUNDS } from "../../engine/engine.ts";
import { bodyFrom } from "./body.ts";
import { deadLetters } from "./dead.ts";
import { findVerifying } from "./held.ts";
import { heldBack } from "./held-back.ts";
import { NEVER } from "./line.ts";
import { findBySeq, findTask, type Found, stateOf } from "./place.ts";
import { placeOf } from "./runs.ts";
import { workers } from "./sessions.ts";
import { COUNTED, type Queue, type Tx } from "./tx.ts";

export function get(tx: Tx, id: string): TaskRecord {
  return record(tx, knownTask(tx, id));
}

function knownTask(tx: Tx, id: string): Found {
  const task = findTask(tx, id);
  if (!task) throw taskNotFound(id);
  return task;
}

export interface PayloadRow {
  data: Body;
  content_type: string | null;
  headers: string | null;
  cost: number | null;
}

export interface EndRow {
  ended_at: number;
  result: Body | null;
}

export const PAYLOAD = `SELECT data, content_type, headers, cost FROM task WHERE seq = ?`;
export const END = `
  SELECT ended_at, result FROM ended WHERE task = ?
  UNION ALL
  SELECT died_at, NULL FROM dead WHERE task = ?`;
const PROGRESS = `SELECT progress, note FROM claim WHERE task = ?`;

export function record(tx: Tx, task: Found): TaskRecord {
  const { place } = task;
  const state = stateOf(place);
  const held = "held" in place ? place.held : undefined;
  const attempt = held ?? (place.state === "leaving" ? place : undefined);
  const ended = isEnd(state) ? tx.get<EndRow>(END, task.seq, task.seq)! : undefined;
  const last = ended && ledger(tx, task.seq).at(-1);
  const payload = tx.get<PayloadRow>(PAYLOAD, task.seq)!;
  const progress =
    place.state === "claimed" &&
    tx.get<{ progress: number | null; note: string | null }>(PROGRESS, task.seq)!;
  return {
    id: tx.id(task.createdAt, task.seq),
    queue: task.queue.name,
    state,
    data: bodyFrom(payload.data),
    contentType: payload.content_type ?? JSON_TYPE,
    headers: payload.headers === null ? {} : (JSON.parse(payload.headers) as Headers),
    ...fromRank(task.rank),
    groupKey: task.groupKey,
    idempotencyKey: task.key,
    cost: payload.cost ?? 1,
    attempt: ended ? (last?.attempt ?? 0) : task.failures + 1,
    maxAttempts: task.maxAttempts ?? task.queue.policy.maxAttempts,
    createdAt: task.createdAt,
    dueAt: "due" in place && place.due !== NEVER ? place.due : null,
    waitsFor: "signal" in place ? place.signal : null,
    expiresAt: task.expiresAt,
    worker: attempt?.worker ?? last?.worker ?? null,
    startedAt: attempt?.startedAt ?? last?.startedAt ?? null,
    endedAt: ended?.ended_at ?? null,
    progress:
      progress && progress.progress !== null ? { value: progress.progress, note: progress.note } : null,
    cancelRequested: held?.cancelled ?? (place.state === "leaving" && place.cancelled),
    result: bodyFrom(ended?.result ?? null),
    error: state === "dead" ? last!.error : null,
    run: placeOf(tx, task),
  };
}

/** To be judged: only the result of the attempt that is named. */
export function verifying(tx: Tx, { id, fence }: Verified): { task: TaskRecord; result: Body | null } {
  const task = findTask(tx, id);
  const held = task && findVerifying(tx, task.seq);
  if (held?.fence !== fence) throw taskNotFound(id);
  return { task: record(tx, task!), result: bodyFrom(held.row.result) };
}

interface EndsRow {
  state: Exclude<EndState, "dead"> | null;
  result: Body | null;
  fence: number | null;
}

const ENDS = `
  SELECT ended.state, ended.result, dead.fence
  FROM task LEFT JOIN ended ON ended.task = task.seq LEFT JOIN dead ON dead.task = task.seq
  WHERE task.seq = ? AND task.created_at = ?`;

export function ends(tx: Tx, ids: string[]): (TaskEnd | "pending" | "missing")[] {
  return ids.map((id) => {
    const place = tx.place(id);
    const row = place && tx.get<EndsRow>(ENDS, place.seq, place.createdAt);
    if (!row) return "missing";
    if (row.state !== null) return { id, state: row.state, result: bodyFrom(row.result), error: null };
    if (row.fence === null) return "pending";
    return { id, state: "dead", result: null, error: ledger(tx, place.seq).at(-1)!.error };
  });
}

export function history(tx: Tx, id: string): Attempt[] {
  return ledger(tx, knownTask(tx, id).seq);
}

interface AttemptRow {
  attempt: number;
  fence: number;
  worker: string;
  started_at: number;
  ended_at: number;
  outcome: AttemptOutcome;
  name: string | null;
  message: string;
  stack: string | null;
  fingerprint: string;
}

const LEDGER = `SELECT * FROM attempt WHERE task = ? ORDER BY fence`;
const SUCCESS = `
  SELECT attempt, fence, worker, started_at, ended_at, 'done' AS outcome, NULL AS name
  FROM ended WHERE task = ? AND state = 'done'`;

/** Oldest first; a success is in the row of the task's end. */
export function ledger(tx: Tx, seq: number): Attempt[] {
  const rows = [...tx.all<AttemptRow>(LEDGER, seq), ...tx.all<AttemptRow>(SUCCESS, seq)];
  return rows.map((row) => ({
    attempt: row.attempt,
    fence: row.fence,
    worker: row.worker,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    outcome: row.outcome,
    error: errorFrom(row),
  }));
}

function errorFrom({
  name,
  message,
  stack,
  fingerprint,
}: AttemptRow): (TaskError & { fingerprint: string }) | null {
  return name === null ? null : { name, message, stack, fingerprint };
}

type SortKey = (number | string)[];

interface Page {
  /** The page's tasks and one, if there is one more; `key` is where each is in the order. */
  rows: { task: number; key: SortKey }[];
}

/** A page, in the order of service (ready), due time (scheduled, parked), group (waiting), arrival (claimed, verifying) or end. */
export function list(
  tx: Tx,
  name: string,
  state: TaskState,
  filter: DeadFilter | undefined,
  after: string | undefined,
  limit: number,
): { tasks: TaskRecord[]; next: string | null } {
  const start =
    after === undefined
      ? undefined
      : parseSortKey(after, state === "claimed" || state === "verifying" ? 1 : 2);
  const queue = tx.queueNamed(name);
  if (!queue) return { tasks: [], next: null };
  const { rows } = filter
    ? deadPage(tx, queue, filter, start, limit + 1)
    : PAGES[state](tx, queue, start, limit + 1);
  const page = rows.slice(0, limit);
  return {
    tasks: page.map((row) => record(tx, findBySeq(tx, row.task)!)),
    next: rows.length > limit ? JSON.stringify(page.at(-1)!.key) : null,
  };
}

function parseSortKey(after: string, parts: number): SortKey {
  try {
    const key = JSON.parse(after) as SortKey;
    if (key.length === parts && key.every((part) => typeof part === "number" || typeof part === "string"))
      return key;
  } catch {
    // Refused below, with every other text that no page ended with.
  }
  throw invalid(`after must be the \`next\` of the page before; got ${show(after)}.`);
}

type Turn = (tx: Tx, queue: Queue, start: SortKey | undefined, limit: number) => Page;

/** Below every number that a key holds. */
const FIRST = Number.MIN_SAFE_INTEGER;

const READY = `
  SELECT task, rank AS a, pos AS b FROM ready WHERE queue = ? AND (rank, pos) > (?, ?) ORDER BY rank, pos LIMIT 0 + ?`;
const KEPT = `
  SELECT task, rank AS a, pos AS b FROM kept WHERE queue = ? AND (rank, pos) > (?, ?) ORDER BY rank, pos LIMIT 0 + ?`;
const OWN = `
  SELECT task, rank AS a, pos AS b FROM own WHERE queue = ? AND (rank, pos) > (?, ?) ORDER BY rank, pos LIMIT 0 + ?`;
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
    const tables = queue.lanes === COUNTED ? [READY, KEPT, OWN] : [READY, KEPT];
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

const FLOW = `
  SELECT coalesce(sum(added), 0) AS added, coalesce(sum(claimed), 0) AS claimed, coalesce(sum(done), 0) AS done,
    coalesce(sum(failed), 0) AS failed, coalesce(sum(wait_ms), 0) AS waitMs, coalesce(sum(service_ms), 0) AS serviceMs
  FROM flow WHERE queue = ? AND slot > ?`;

export function stats(tx: Tx, name: string): QueueStats {
  const queue = tx.queueNamed(name);
  const depth = queue ? tx.depth(queue) : NO_DEPTH;
  const since = Math.floor((tx.now - BOUNDS.rateWindow) / BOUNDS.rateSlot);
  const flow = queue ? tx.get<Flow>(FLOW, queue.id, since)! : noFlow();
  return {
    queue: name,
    paused: queue?.paused ?? false,
    depth,
    oldestAge: queue ? oldestAge(tx, queue) : null,
    ...describeFlow(flow, BOUNDS.rateWindow),
    workers: workers(tx, name).length,
    heldBack: queue ? heldBack(tx, queue) : null,
  };
}

const FIRST_OF_RANK = `
  SELECT rank, task FROM ready WHERE queue = ? AND rank > ? ORDER BY rank, pos LIMIT 1`;
const FIRST_MOVED = `
  SELECT min(task) AS task FROM ready INDEXED BY ready_moved WHERE queue = ? AND pos <> task`;
const FIRST_KEPT = `SELECT min(task) AS task FROM kept WHERE queue = ?`;
const FIRST_OWN = `SELECT min(task) AS task FROM own WHERE queue = ?`;
const CREATED_AT = `SELECT created_at FROM task WHERE seq = ?`;

/** Steps from rank to rank, so that its cost is that of the priorities in use and not of the depth. */
function oldestAge(tx: Tx, queue: Queue): number | null {
  const moved = tx.get<{ task: number | null }>(FIRST_MOVED, queue.id)!.task;
  const kept = tx.get<{ task: number | null }>(FIRST_KEPT, queue.id)!.task;
  const own = queue.lanes === COUNTED ? tx.get<{ task: number | null }>(FIRST_OWN, queue.id)!.task : null;
  let oldest = Math.min(...[moved, kept, own].map((task) => task ?? Number.POSITIVE_INFINITY));
  let first = tx.get<{ rank: number; task: number }>(FIRST_OF_RANK, queue.id, FIRST);
  while (first) {
    oldest = Math.min(oldest, first.task);
    first = tx.get(FIRST_OF_RANK, queue.id, first.rank);
  }
  if (oldest === Number.POSITIVE_INFINITY) return null;
  return tx.now - tx.get<{ created_at: number }>(CREATED_AT, oldest)!.created_at;
}
