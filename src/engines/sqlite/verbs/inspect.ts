import { fitting, sizeOfAttempt, sizeOfEnd } from "../../../core/answer/answer-size.ts";
import { linesOf, withLines } from "../../../core/handler/attempt-log.ts";
import { LIMITS } from "../../../core/input/limits.ts";
import { type Payloads, truncatedFrom } from "../../../core/answer/preview.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import {
  type Attempt,
  type Body,
  type EndState,
  isEnd,
  type TaskEnd,
  type TaskRecord,
} from "../../../core/task/task.ts";
import type { Verified } from "../../../core/handler/verification.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { type AttemptRow, attemptFrom, taskRecord } from "../../../engine/task-records.ts";
import { bodyFrom } from "../statements/body.ts";
import { findVerifying } from "../line/held.ts";
import { findTask, type Found } from "../line/find-task.ts";
import { relativesOf } from "../flows/children.ts";
import { logOf } from "../flows/log.ts";
import { placeOf } from "../flows/runs.ts";
import { readPage } from "../statements/read-page.ts";
import type { Tx } from "../transaction/tx.ts";

/** What callers can see of tasks: `get`, `history`, `verifying`, and the ends of tasks. */

export function get(tx: Tx, { id }: Verbs["get"]["in"]): TaskRecord {
  const task = knownTask(tx, id);
  const { place } = task;
  const lines = place.state === "claimed" ? linesOf(place.held.fence, logOf(tx, task.seq)) : {};
  return { ...record(tx, task), ...relativesOf(tx, task.seq), ...lines };
}

function knownTask(tx: Tx, id: string): Found {
  const task = findTask(tx, id);
  if (!task) throw taskNotFound(id);
  return task;
}

interface PayloadRow {
  data: Body;
  content_type: string | null;
  headers: string | null;
  cost: number | null;
  /** For a preview: the bytes of the whole value. */
  size?: number;
}

interface EndRow {
  ended_at: number;
  result: Body | null;
  size?: number | null;
}

const PAYLOAD = `SELECT data, content_type, headers, cost FROM task WHERE seq = ?`;
const END = `
  SELECT ended_at, result FROM ended WHERE task = ?
  UNION ALL
  SELECT died_at, NULL FROM dead WHERE task = ?`;
// The length is in the row's header: the rest of a large value is not read.
const beginningOf = (column: string): string => `
  CASE WHEN octet_length(${column}) > ${LIMITS.previewAbove} THEN substr(${column}, 1, ${LIMITS.preview}) ELSE ${column} END AS ${column},
  octet_length(${column}) AS size`;
const PAYLOAD_PREVIEW = PAYLOAD.replace("data", beginningOf("data"));
const END_PREVIEW = END.replace("result", beginningOf("result")).replace("NULL", "NULL, NULL");
const PROGRESS = `SELECT progress, note FROM claim WHERE task = ?`;

/** For a list, large payloads and results are cut to their beginning. */
export function record(tx: Tx, task: Found, payloads: Payloads = "full"): TaskRecord {
  const { state } = task.place;
  const isFull = payloads === "full";
  const ended = isEnd(state) ? tx.get<EndRow>(isFull ? END : END_PREVIEW, task.seq, task.seq)! : undefined;
  const { data, size, ...payload } = tx.get<PayloadRow>(isFull ? PAYLOAD : PAYLOAD_PREVIEW, task.seq)!;
  return {
    ...taskRecord(task, {
      ...{ id: tx.id(task.createdAt, task.seq), data: bodyFrom(data), ...payload },
      endedAt: ended?.ended_at ?? null,
      result: bodyFrom(ended?.result ?? null),
      last: ended && lastAttempt(tx, task.seq),
      progress: state === "claimed" ? progressOf(tx, task.seq) : null,
    }),
    run: placeOf(tx, task),
    ...(!isFull && truncatedFrom(size!, ended?.size ?? 0)),
  };
}

function progressOf(tx: Tx, seq: number): TaskRecord["progress"] {
  const { progress: value, note } = tx.get<{ progress: number | null; note: string | null }>(PROGRESS, seq)!;
  return value === null ? null : { value, note };
}

/** For a verifier: only the result of the attempt that is named. */
export function verifying(tx: Tx, { id, fence }: Verified): { task: TaskRecord; result: Body | null } {
  const task = findTask(tx, id);
  const held = task && findVerifying(tx, task.seq);
  if (!held || held.fence !== fence) throw taskNotFound(id);
  return { task: record(tx, task), result: bodyFrom(held.row.result) };
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

export function endsOfTasks(tx: Tx, ids: string[]): End[] {
  return readEnds(ids, (id) => {
    const place = tx.place(id);
    const row = place && tx.get<EndsRow>(ENDS, place.seq, place.createdAt);
    if (!row) return "missing";
    if (row.state !== null) return { id, state: row.state, result: bodyFrom(row.result), error: null };
    if (row.fence === null) return "pending";
    return { id, state: "dead", result: null, error: lastAttempt(tx, place.seq)!.error };
  });
}

type End = TaskEnd | "pending" | "missing";

export function readEnds(ids: string[], read: (id: string) => End): End[] {
  return readPage(ids, read, sizeOfEnd);
}

const LATEST = `SELECT * FROM attempt WHERE task = ? ORDER BY fence DESC LIMIT ${LIMITS.page}`;

export function history(tx: Tx, { id }: Verbs["history"]["in"]): Attempt[] {
  const { seq } = knownTask(tx, id);
  const attempts = [...tx.all<AttemptRow>(SUCCESS, seq), ...tx.all<AttemptRow>(LATEST, seq)].map((row) =>
    attemptFrom(row),
  );
  const latest = withLines(attempts.slice(0, LIMITS.page), logOf(tx, seq));
  return fitting(latest, sizeOfAttempt).toReversed();
}

const LEDGER = `SELECT * FROM attempt WHERE task = ? ORDER BY fence`;
const SUCCESS = `
  SELECT attempt, fence, worker, started_at, ended_at, 'done' AS outcome, NULL AS name
  FROM ended WHERE task = ? AND state = 'done'`;

/** Oldest first. A success is part of the row in `ended`. */
export function ledger(tx: Tx, seq: number): Attempt[] {
  return [...tx.all<AttemptRow>(LEDGER, seq), ...tx.all<AttemptRow>(SUCCESS, seq)].map((row) =>
    attemptFrom(row),
  );
}

const LAST_FAILURE = `SELECT * FROM attempt WHERE task = ? ORDER BY fence DESC LIMIT 1`;

export function lastAttempt(tx: Tx, seq: number): Attempt | undefined {
  const row = tx.get<AttemptRow>(SUCCESS, seq) ?? tx.get<AttemptRow>(LAST_FAILURE, seq);
  return row && attemptFrom(row);
}
