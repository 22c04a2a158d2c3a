import type { Verbs } from "../../../engine/engine.ts";
import {
  fitting,
  fittingLast,
  inlineBytes,
  ROW_BYTES,
  sizeOfAttempt,
  sizeOfEnd,
} from "../../../core/answer/answer-size.ts";
import { linesOf, withLines } from "../../../core/handler/attempt-log.ts";
import { LIMITS } from "../../../core/input/limits.ts";
import { type Payloads, truncatedFrom } from "../../../core/answer/preview.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import type { Attempt, Body, EndState, TaskEnd, TaskRecord } from "../../../core/task/task.ts";
import type { Verified } from "../../../core/handler/verification.ts";
import { type AttemptRow, attemptFrom, taskRecord } from "../../../engine/task-records.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { lookUp, rowsBy, rowsOf } from "../statements/look-up.ts";
import { type Found, findTask } from "../line/find-task.ts";
import { relativesOf } from "../flows/children.ts";
import { logOf } from "../flows/log.ts";
import { placesOf } from "../flows/run-place.ts";
import { fromColumns, fromText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** What callers can see of tasks: `get`, `history`, `verifying`, and the ends of tasks. */

export async function get(tx: Tx, { id }: Verbs["get"]["in"]): Promise<TaskRecord> {
  const task = await knownTask(tx, id);
  const { place } = task;
  const [[found], relatives, lines] = await allAnswered([
    records(tx, [task]),
    relativesOf(tx, task.seq),
    place.state === "claimed" ? logOf(tx, task.seq) : Promise.resolve([]),
  ]);
  if (!found) throw taskNotFound(id);
  const log = place.state === "claimed" ? linesOf(place.held.fence, lines) : {};
  return { ...found, ...relatives, ...log };
}

async function knownTask(tx: Tx, id: string): Promise<Found> {
  const task = await findTask(tx, id);
  if (!task) throw taskNotFound(id);
  return task;
}

const RESULT = rowsBy(
  "verifying",
  { task: "$1::int8" },
  { columns: "result, result_bytes", also: "fence = $2" },
);

/** For a verifier: only the result of the attempt that is named. */
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
  const [task] = await records(tx, [await knownTask(tx, id)]);
  if (!task) throw taskNotFound(id);
  return { task, result: fromColumns(row.result, row.result_bytes) };
}

interface PayloadRow {
  seq: number;
  data: string | null;
  bytes: Uint8Array | null;
  content_type: string | null;
  headers: string | null;
  ended_at: number | null;
  result: string | null;
  result_bytes: Uint8Array | null;
  /** For a preview: the bytes of the whole payload and of the whole result. */
  size?: number;
  result_size?: number;
}

const TASKS_AND_ENDS = `unnest($1::int8[]) AS wanted (seq)
  CROSS JOIN ${lookUp("task", "task.seq = wanted.seq")}
  LEFT JOIN ${lookUp("ended", { task: "task.seq" })} ON true
  LEFT JOIN ${lookUp("dead", { task: "task.seq" })} ON true`;
const PAYLOADS = `
  SELECT task.seq, data, bytes, content_type, headers, coalesce(ended.ended_at, dead.died_at) AS ended_at,
    ended.result, ended.result_bytes
  FROM ${TASKS_AND_ENDS}`;

// PostgreSQL knows the length and the beginning of a large value without reading all of it.
const SIZE = (text: string, bytes: string): string =>
  `coalesce(octet_length(${text}), octet_length(${bytes}), 0)`;
const beginningOf = (column: string, cut: "left" | "substr"): string => `
  CASE WHEN octet_length(${column}) > ${LIMITS.previewAbove}
    THEN ${cut}(${column}, ${cut === "left" ? "" : "1, "}${LIMITS.preview}) ELSE ${column} END`;
const PREVIEWS = `
  SELECT task.seq, ${beginningOf("data", "left")} AS data, ${beginningOf("bytes", "substr")} AS bytes, content_type, headers,
    coalesce(ended.ended_at, dead.died_at) AS ended_at, ${beginningOf("ended.result", "left")} AS result,
    ${beginningOf("ended.result_bytes", "substr")} AS result_bytes, ${SIZE("data", "bytes")} AS size,
    ${SIZE("ended.result", "ended.result_bytes")} AS result_size
  FROM ${TASKS_AND_ENDS}`;
const SIZES = `
  SELECT task.seq, ${SIZE("data", "bytes")} AS data, ${SIZE("ended.result", "ended.result_bytes")} AS result,
    ${SIZE("headers", "''::bytea")} + coalesce(octet_length(attempt.message), 0) + coalesce(octet_length(attempt.stack), 0) AS rest
  FROM ${TASKS_AND_ENDS}
  LEFT JOIN ${lookUp("attempt", "attempt.task = dead.task AND attempt.fence = dead.fence")} ON true`;

/** The size of each task in a list, before the tasks are read. */
export async function sizesOf(tx: Tx, seqs: number[], payloads: Payloads): Promise<Map<number, number>> {
  if (seqs.length === 0) return new Map();
  const rows = await tx.all<{ seq: number; data: number; result: number; rest: number }>(SIZES, seqs);
  const shown = (bytes: number) =>
    payloads === "preview" && bytes > LIMITS.previewAbove ? LIMITS.preview : bytes;
  return new Map(
    rows.map(({ seq, data, result, rest }) => [seq, ROW_BYTES + shown(data) + shown(result) + rest]),
  );
}

/**
 * In the given order. Each statement has its own snapshot: tasks that were deleted since they were found are left out.
 * Payloads are read last.
 */
export async function records(tx: Tx, tasks: Found[], payloads: Payloads = "full"): Promise<TaskRecord[]> {
  if (tasks.length === 0) return [];
  const seqs = tasks.map((task) => task.seq);
  const [attempts, runs, rows] = await allAnswered([
    lastAttemptsOf(tx, seqs),
    placesOf(tx, seqs),
    tx.all<PayloadRow>(payloads === "full" ? PAYLOADS : PREVIEWS, seqs),
  ]);
  const found = new Map(rows.map((row) => [row.seq, row]));
  return tasks.flatMap((task) => {
    const payload = found.get(task.seq);
    if (!payload) return [];
    return {
      ...record(tx, task, payload, attempts.get(task.seq)),
      run: runs.get(task.seq) ?? null,
      ...(payload.size !== undefined && truncatedFrom(payload.size, payload.result_size!)),
    };
  });
}

function record(
  tx: Tx,
  task: Found,
  payload: PayloadRow,
  latest: Attempt | undefined,
): Omit<TaskRecord, "run"> {
  return taskRecord(task, {
    id: tx.id(task.createdAt, task.seq),
    data: fromColumns(payload.data, payload.bytes)!,
    ...{ content_type: payload.content_type, headers: payload.headers, cost: task.cost },
    endedAt: payload.ended_at,
    result: fromColumns(payload.result, payload.result_bytes),
    last: latest,
    progress: task.place.state === "claimed" ? progressFrom(task.place.progress) : null,
  });
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
  size: number;
  fence: number | null;
}

// Of a large result only the size, until it is known whether it fits.
const IS_SMALL = `${SIZE("ended.result", "ended.result_bytes")} <= $2`;
const ENDS = `
  SELECT task.seq, task.created_at, ended.state, CASE WHEN ${IS_SMALL} THEN ended.result END AS result,
    CASE WHEN ${IS_SMALL} THEN ended.result_bytes END AS result_bytes,
    CASE WHEN ${IS_SMALL} THEN 0 ELSE ${SIZE("ended.result", "ended.result_bytes")} END AS size, dead.fence
  FROM ${TASKS_AND_ENDS}`;
const RESULTS = `
  SELECT task AS seq, result, result_bytes FROM ${rowsOf("ended", "$1::int8[]", "task, result, result_bytes")} AS ended`;

export async function endsOfTasks(tx: Tx, ids: string[]): Promise<(TaskEnd | "pending" | "missing")[]> {
  const places = ids.map((id) => tx.place(id));
  const seqs = places.flatMap((place) => (place ? [place.seq] : []));
  const found = await tx.all<EndsRow>(ENDS, seqs, inlineBytes(Math.max(ids.length, 1)));
  const rows = new Map(found.map((row) => [row.seq, row]));
  const dead = [...rows.values()].filter((row) => row.fence !== null).map((row) => row.seq);
  const attempts = await lastAttemptsOf(tx, dead);
  const ends = ids.map((id, index): { end: TaskEnd | "pending" | "missing"; row?: EndsRow } => {
    const place = places[index];
    const row = place && rows.get(place.seq);
    if (!row || row.created_at !== place.createdAt) return { end: "missing" };
    if (row.state !== null) {
      const result = fromColumns(row.result, row.result_bytes);
      return { end: { id, state: row.state, result, error: null }, row };
    }
    if (row.fence === null) return { end: "pending" };
    // None if it was discarded between the two statements.
    const last = attempts.get(row.seq);
    return { end: last ? { id, state: "dead", result: null, error: last.error } : "missing" };
  });
  const fit = fitting(ends, ({ end, row }) => sizeOfEnd(end) + (row?.size ?? 0));
  const large = fit.flatMap(({ row }) => (row && row.size > 0 ? [row.seq] : []));
  const results = large.length === 0 ? [] : await tx.all<ResultRow>(RESULTS, large);
  const bySeq = new Map(results.map((row) => [row.seq, fromColumns(row.result, row.result_bytes)]));
  return fit.map(({ end, row }) => {
    if (typeof end === "string" || !row || row.size === 0) return end;
    // None if it was deleted between the two statements.
    return bySeq.has(row.seq) ? { ...end, result: bySeq.get(row.seq)! } : "missing";
  });
}

type ResultRow = Pick<EndsRow, "seq" | "result" | "result_bytes">;

export async function history(tx: Tx, { id }: Verbs["history"]["in"]): Promise<Attempt[]> {
  const { seq } = await knownTask(tx, id);
  const [rows, lines] = await allAnswered([tx.all<AttemptRow>(LATEST, [seq]), logOf(tx, seq)]);
  rows.sort((a, b) => a.fence - b.fence);
  const attempts = rows.slice(-LIMITS.page).map((row) => attemptFrom(row, fromText));
  return fittingLast(withLines(attempts, lines), sizeOfAttempt);
}

const COLUMNS =
  "task, attempt, fence, worker, started_at, ended_at, outcome, name, message, stack, fingerprint";
// A success is part of the row in `ended`.
const SUCCESSES = `
  SELECT task, attempt, fence, worker, started_at, ended_at, 'done', NULL, NULL, NULL, NULL
  FROM ${rowsOf("ended", "$1::int8[]")} AS ended WHERE state = 'done'`;
const LATEST = `
  SELECT latest.* FROM unnest($1::int8[]) AS wanted (seq) CROSS JOIN LATERAL (
    SELECT ${COLUMNS} FROM dibs.attempt WHERE task = wanted.seq ORDER BY fence DESC LIMIT ${LIMITS.page}) AS latest
  UNION ALL ${SUCCESSES}`;
const LAST_ATTEMPTS = `
  SELECT last.* FROM unnest($1::int8[]) AS wanted (seq) CROSS JOIN LATERAL (
    SELECT ${COLUMNS} FROM dibs.attempt WHERE task = wanted.seq ORDER BY fence DESC LIMIT 1) AS last
  UNION ALL ${SUCCESSES}`;

/** The last attempt of each task. */
export async function lastAttemptsOf(tx: Tx, seqs: number[]): Promise<Map<number, Attempt>> {
  if (seqs.length === 0) return new Map();
  const rows = await tx.all<AttemptRow & { task: number }>(LAST_ATTEMPTS, seqs);
  rows.sort((a, b) => a.fence - b.fence);
  return new Map(rows.map((row) => [row.task, attemptFrom(row, fromText)]));
}
