import { describeFlow, noFlow } from "../../core/flow.ts";
import { invalid } from "../../core/errors.ts";
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
  type TaskRecord,
  type TaskState,
} from "../../core/task.ts";
import type { Verified } from "../../core/verification.ts";
import { BOUNDS } from "../../engine/engine.ts";
import { allAnswered } from "./all-answered.ts";
import { readFlow } from "./counters.ts";
import { deadLetters } from "./dead.ts";
import { aboveFloor } from "./floors.ts";
import { heldBack } from "./held-back.ts";
import { NEVER } from "./line.ts";
import { type Found, findMany, findTask, stateOf } from "./place.ts";
import { placesOf } from "./run-place.ts";
import { workers } from "./sessions.ts";
import { fromColumns, fromText } from "./text.ts";
import type { Queue, Tx } from "./tx.ts";

export async function get(tx: Tx, id: string): Promise<TaskRecord> {
  const [found] = await records(tx, [await knownTask(tx, id)]);
  if (!found) throw taskNotFound(id);
  return found;
}

async function knownTask(tx: Tx, id: string): Promise<Found> {
  const task = await findTask(tx, id);
  if (!task) throw taskNotFound(id);
  return task;
}

const RESULT = `SELECT result, result_bytes FROM dibs.verifying WHERE task = $1 AND fence = $2`;

/** To be judged: only the result of the attempt that is named. */
export async function verifying(
  tx: Tx,
  { id, fence }: Verified,
): Promise<{ task: TaskRecord; result: Body | null }> {
  const place = tx.place(id);
  const row =
    place && Number.isSafeInteger(fence)
      ? await tx.get<{ result: string | null; result_bytes: Uint8Array | null }>(RESULT, place.seq, fence)
      : undefined;
  if (!row) throw taskNotFound(id);
  return { task: await get(tx, id), result: fromColumns(row.result, row.result_bytes) };
}

export interface PayloadRow {
  seq: number;
  data: string | null;
  bytes: Uint8Array | null;
  content_type: string | null;
  headers: string | null;
  ended_at: number | null;
  result: string | null;
  result_bytes: Uint8Array | null;
}

export const PAYLOADS = `
  SELECT task.seq, data, bytes, content_type, headers, coalesce(ended.ended_at, dead.died_at) AS ended_at,
    ended.result, ended.result_bytes
  FROM unnest($1::int8[]) AS wanted (seq)
  JOIN dibs.task ON task.seq = wanted.seq
  LEFT JOIN dibs.ended ON ended.task = task.seq
  LEFT JOIN dibs.dead ON dead.task = task.seq`;

/**
 * In the given order. Beside writes each statement sees its own moment: those that somebody has removed since they were
 * found are left out. The payloads are read last, so that nothing is missing of a task that has its own.
 */
export async function records(tx: Tx, tasks: Found[]): Promise<TaskRecord[]> {
  if (tasks.length === 0) return [];
  const seqs = tasks.map((task) => task.seq);
  const [ledgers, runs, rows] = await allAnswered([
    ledgersOf(tx, seqs),
    placesOf(tx, seqs),
    tx.all<PayloadRow>(PAYLOADS, seqs),
  ]);
  const payloads = new Map(rows.map((row) => [row.seq, row]));
  return tasks.flatMap((task) => {
    const payload = payloads.get(task.seq);
    if (!payload) return [];
    return {
      ...record(tx, task, payload, ledgers.get(task.seq)?.at(-1)),
      run: runs.get(task.seq) ?? null,
    };
  });
}

function record(
  tx: Tx,
  task: Found,
  payload: PayloadRow,
  latest: Attempt | undefined,
): Omit<TaskRecord, "run"> {
  const { place } = task;
  const state = stateOf(place);
  const held = "held" in place ? place.held : undefined;
  const attempt = held ?? (place.state === "leaving" ? place : undefined);
  const ended = isEnd(state);
  const last = ended ? latest : undefined;
  return {
    id: tx.id(task.createdAt, task.seq),
    queue: task.queue.name,
    state,
    data: fromColumns(payload.data, payload.bytes)!,
    contentType: payload.content_type ?? JSON_TYPE,
    headers: payload.headers === null ? {} : (JSON.parse(payload.headers) as Headers),
    ...fromRank(task.rank),
    groupKey: task.groupKey,
    idempotencyKey: task.key,
    cost: task.cost ?? 1,
    attempt: ended ? (last?.attempt ?? 0) : task.failures + 1,
    maxAttempts: task.maxAttempts ?? task.queue.policy.maxAttempts,
    createdAt: task.createdAt,
    dueAt: "due" in place && place.due !== NEVER ? place.due : null,
    waitsFor: "signal" in place ? place.signal : null,
    expiresAt: task.expiresAt,
    worker: attempt?.worker ?? last?.worker ?? null,
    startedAt: attempt?.startedAt ?? last?.startedAt ?? null,
    endedAt: ended ? payload.ended_at : null,
    progress: place.state === "claimed" ? progressFrom(place.progress) : null,
    cancelRequested: held?.cancelled ?? (place.state === "leaving" && place.cancelled),
    result: ended ? fromColumns(payload.result, payload.result_bytes) : null,
    error: state === "dead" ? last!.error : null,
  };
}

function progressFrom(progress: TaskRecord["progress"]): TaskRecord["progress"] {
  return progress && { value: progress.value, note: progress.note === null ? null : fromText(progress.note) };
}

interface EndsRow {
  seq: number;
  created_at: number;
  state: Exclude<EndState, "dead"> | null;
  result: string | null;
  result_bytes: Uint8Array | null;
  fence: number | null;
}

const ENDS = `
  SELECT task.seq, task.created_at, ended.state, ended.result, ended.result_bytes, dead.fence
  FROM unnest($1::int8[]) AS wanted (seq)
  JOIN dibs.task ON task.seq = wanted.seq
  LEFT JOIN dibs.ended ON ended.task = task.seq
  LEFT JOIN dibs.dead ON dead.task = task.seq`;

export async function ends(tx: Tx, ids: string[]): Promise<(TaskEnd | "pending" | "missing")[]> {
  const places = ids.map((id) => tx.place(id));
  const seqs = places.flatMap((place) => (place ? [place.seq] : []));
  const rows = new Map((await tx.all<EndsRow>(ENDS, seqs)).map((row) => [row.seq, row]));
  const dead = [...rows.values()].filter((row) => row.fence !== null).map((row) => row.seq);
  const ledgers = await ledgersOf(tx, dead);
  return ids.map((id, index) => {
    const place = places[index];
    const row = place && rows.get(place.seq);
    if (!row || row.created_at !== place.createdAt) return "missing";
    if (row.state !== null) {
      return { id, state: row.state, result: fromColumns(row.result, row.result_bytes), error: null };
    }
    if (row.fence === null) return "pending";
    // None where it was discarded between the two statements.
    const last = ledgers.get(row.seq)?.at(-1);
    return last ? { id, state: "dead", result: null, error: last.error } : "missing";
  });
}

export async function history(tx: Tx, id: string): Promise<Attempt[]> {
  const { seq } = await knownTask(tx, id);
  return (await ledgersOf(tx, [seq])).get(seq) ?? [];
}

interface AttemptRow {
  task: number;
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

// A success is in the row of the task's end.
const LEDGERS = `
  SELECT task, attempt, fence, worker, started_at, ended_at, outcome, name, message, stack, fingerprint
  FROM dibs.attempt WHERE task = ANY ($1::int8[])
  UNION ALL
  SELECT task, attempt, fence, worker, started_at, ended_at, 'done', NULL, NULL, NULL, NULL
  FROM dibs.ended WHERE task = ANY ($1::int8[]) AND state = 'done'`;

/** Oldest first. */
export async function ledgersOf(tx: Tx, seqs: number[]): Promise<Map<number, Attempt[]>> {
  if (seqs.length === 0) return new Map();
  const rows = await tx.all<AttemptRow>(LEDGERS, seqs);
  rows.sort((a, b) => a.fence - b.fence);
  const ledgers = new Map<number, Attempt[]>();
  for (const row of rows) {
    const ledger = ledgers.get(row.task) ?? [];
    ledgers.set(row.task, ledger);
    ledger.push({
      attempt: row.attempt,
      fence: row.fence,
      worker: row.worker,
      startedAt: row.started_at,
      endedAt: row.ended_at,
      outcome: row.outcome,
      error: errorFrom(row),
    });
  }
  return ledgers;
}

function errorFrom({ name, message, stack, fingerprint }: AttemptRow): Attempt["error"] {
  if (name === null) return null;
  return {
    name: fromText(name),
    message: fromText(message),
    stack: stack === null ? null : fromText(stack),
    fingerprint: fromText(fingerprint),
  };
}

type SortKey = (number | string)[];

/** The page's tasks and one, if there is one more; `key` is where each is in the order. */
type Page = { task: number; key: SortKey }[];

/** A page, in the order of service (ready), due time (scheduled, parked), group (waiting), arrival (claimed, verifying) or end. */
export async function list(
  tx: Tx,
  name: string,
  state: TaskState,
  filter: DeadFilter | undefined,
  after: string | undefined,
  limit: number,
): Promise<{ tasks: TaskRecord[]; next: string | null }> {
  const start = after === undefined ? undefined : parseSortKey(after, KEY_TYPES[state] ?? NUMBERS);
  const queue = tx.queueNamed(name);
  if (!queue) return { tasks: [], next: null };
  const rows = filter
    ? await deadPage(tx, queue, filter, start, limit + 1)
    : await PAGES[state](tx, queue, start, limit + 1);
  const page = rows.slice(0, limit);
  return {
    tasks: await records(
      tx,
      await findMany(
        tx,
        page.map((row) => row.task),
      ),
    ),
    next: rows.length > limit ? JSON.stringify(page.at(-1)!.key) : null,
  };
}

const NUMBERS = ["number", "number"];
const KEY_TYPES: Partial<Record<TaskState, string[]>> = {
  claimed: ["number"],
  verifying: ["number"],
  waiting: ["string", "number"],
};

function parseSortKey(after: string, types: string[]): SortKey {
  try {
    const key = JSON.parse(after) as SortKey;
    const isOne = types.every(
      (type, i) => typeof key[i] === type && (type === "string" || Number.isSafeInteger(key[i])),
    );
    if (key.length === types.length && isOne) return key;
  } catch {
    // Refused below, with every other text that no page ended with.
  }
  throw invalid(`after must be the \`next\` of the page before; got ${show(after)}.`);
}

type Turn = (tx: Tx, queue: Queue, start: SortKey | undefined, limit: number) => Promise<Page>;

/** Below every number that a key holds. */
const FIRST = Number.MIN_SAFE_INTEGER;

const READY = `
  SELECT task, rank AS a, pos AS b FROM dibs.ready WHERE queue = $1 AND (rank, pos) > ($2::int8, $3::int8)
  ORDER BY rank, pos LIMIT $4`;
const KEPT = READY.replace("dibs.ready", "dibs.kept");
const OWN = READY.replace("dibs.ready", "dibs.own");
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
      [READY, KEPT, ...(queue.limited ? [OWN] : [])].map((sql) =>
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

export async function stats(tx: Tx, name: string): Promise<QueueStats> {
  const queue = tx.queueNamed(name);
  const depth = queue ? await tx.depth(queue) : NO_DEPTH;
  const since = Math.floor((tx.now - BOUNDS.rateWindow) / BOUNDS.rateSlot);
  const flow = queue ? await readFlow(tx, queue.id, since) : noFlow();
  return {
    queue: name,
    paused: queue?.paused ?? false,
    depth: { ...depth },
    oldestAge: queue ? await oldestAge(tx, queue) : null,
    ...describeFlow(flow, BOUNDS.rateWindow),
    workers: (await workers(tx, name)).length,
    heldBack: queue ? await heldBack(tx, queue) : null,
  };
}

// Steps from rank to rank, so that its cost is that of the priorities in use and not of the depth.
const OLDEST_WITH = (more: string): string => `
  WITH RECURSIVE first AS (
    (SELECT rank, task FROM dibs.ready WHERE queue = $1 AND ${aboveFloor("$1")} ORDER BY rank, pos LIMIT 1)
    UNION ALL
    SELECT next.rank, next.task FROM first CROSS JOIN LATERAL (
      SELECT rank, task FROM dibs.ready WHERE queue = $1 AND rank > first.rank ORDER BY rank, pos LIMIT 1) AS next
  ), oldest AS (
    SELECT least(
      (SELECT min(task) FROM first),
      (SELECT min(task) FROM dibs.ready WHERE queue = $1 AND pos <> task),
      (SELECT min(task) FROM dibs.kept WHERE queue = $1)${more}) AS seq)
  SELECT created_at FROM oldest JOIN dibs.task ON task.seq = oldest.seq`;
const OLDEST = OLDEST_WITH("");
const OLDEST_WITH_LIMITS = OLDEST_WITH(`, (SELECT min(task) FROM dibs.own WHERE queue = $1)`);

async function oldestAge(tx: Tx, queue: Queue): Promise<number | null> {
  const sql = queue.limited ? OLDEST_WITH_LIMITS : OLDEST;
  const oldest = await tx.get<{ created_at: number }>(sql, queue.id);
  return oldest ? tx.now - oldest.created_at : null;
}
