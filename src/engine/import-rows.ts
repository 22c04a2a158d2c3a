import {
  attemptRows,
  type ChildEntry,
  type KeyEntry,
  type PartEntry,
  type RunEntry,
  type StoreRecord,
  type TaskEntry,
} from "../core/record/record.ts";
import { formatPart } from "../core/run/run-part.ts";
import type { TaskIdParts } from "../core/task/task-id.ts";
import { type Body, rankOf, type TaskError } from "../core/task/task.ts";
import { NEVER } from "../core/task/transition.ts";

/**
 * The rows that the records of an import become, in the tables that both SQL engines have. `transfer/import.ts` of both
 * engines writes them, and the rows of lines, lanes and gates, which differ.
 */

/** SQLite stores booleans as numbers. PostgreSQL has one column for bodies that are text and one for bytes. */
type Cell = Body | number | boolean | null;
export type ImportRow = Record<string, Cell>;
/** Not the tables of a line: `line/enter-line.ts` of both engines is the only one that writes to these. */
type ImportTable =
  | "attempt"
  | "child"
  | "dead"
  | "document"
  | "ended"
  | "idempotency"
  | "log"
  | "run"
  | "run_part"
  | "run_signal"
  | "scheduled"
  | "step"
  | "task"
  | "ttl"
  | "verifying"
  | "waiting";
export type TableRow = [table: ImportTable, row: ImportRow];

/** The store that records are written to. */
export interface ImportTarget {
  place(id: string): TaskIdParts;
  /** The number of a queue that was imported before. */
  queueId(name: string): number;
  /** The columns that only this engine has. */
  taskColumns(record: TaskEntry): ImportRow;
  verifyingColumns(record: TaskEntry): ImportRow;
  /** The error of a child whose task was removed. */
  errorText(error: TaskError): string;
}

/** In the order in which they must be written. */
export function rowsOf(target: ImportTarget, record: StoreRecord): TableRow[] {
  switch (record.type) {
    case "document": {
      const { kind, name, value, dueAt = null } = record;
      return [["document", { kind, name, value, due_at: dueAt }]];
    }
    case "run":
      return rowsOfRun(target, record);
    case "part":
      return [["run_part", partRow(target, record)]];
    case "child":
      return [["child", childRow(target, record)]];
    case "task":
      return rowsOfTask(target, record);
    case "key":
      return [["idempotency", keyRow(target, record)]];
    default:
      return [];
  }
}

/** Its dead tasks are counted with the tasks. */
function rowsOfRun(target: ImportTarget, record: RunEntry): TableRow[] {
  const { queue, pipeline, stages, underWay, counts, state = null, endedAt = null, result = null } = record;
  const { seq, createdAt } = target.place(record.id);
  const run = {
    ...{ id: seq, created_at: createdAt, queue, pipeline, stages: JSON.stringify(stages) },
    counts: counts ? JSON.stringify(counts) : null,
    ...{ under_way: underWay, dead: 0, state, ended_at: endedAt, result },
  };
  const signals = record.signals ?? [];
  return [
    ["run", run],
    ...signals.map(({ name, value }): TableRow => ["run_signal", { run: seq, name, value }]),
  ];
}

function partRow(target: ImportTarget, record: PartEntry): ImportRow {
  const { stage, part, state = null, startedAt = null, endedAt = null, awaitsJoin } = record;
  const { seq, createdAt } = target.place(record.id);
  return {
    ...{ task: seq, run: target.place(record.run).seq, created_at: createdAt, stage },
    ...{ part: formatPart(part), state, started_at: startedAt, ended_at: endedAt },
    ...{ awaits_join: awaitsJoin !== undefined, result: awaitsJoin?.result ?? null },
  };
}

function childRow(target: ImportTarget, record: ChildEntry): ImportRow {
  const { n, name, queue, state = null, endedAt = null, error, result = null } = record;
  const { seq, createdAt } = target.place(record.id);
  return {
    ...{ task: seq, parent: target.place(record.parent).seq, n, created_at: createdAt, name, queue },
    ...{ state, ended_at: endedAt, error: error ? target.errorText(error) : null, result },
  };
}

function keyRow(target: ImportTarget, record: KeyEntry): ImportRow {
  const { queue, key, forgetAt = null, state = null } = record;
  const { seq, createdAt } = target.place(record.task);
  return {
    ...{ queue: target.queueId(queue), key, task: seq, created_at: createdAt },
    ...{ forget_at: forgetAt, state },
  };
}

/** States in which a time-to-live counts. */
const MORTAL: ReadonlySet<TaskEntry["state"]> = new Set(["ready", "waiting", "scheduled", "parked"]);

/** After the runs, parts and children: a task that is one of these is special. */
function rowsOfTask(target: ImportTarget, record: TaskEntry): TableRow[] {
  const { seq } = target.place(record.id);
  const { steps = [], feedback, log = [], expiresAt } = record;
  const rows: TableRow[] = [["task", taskRow(target, record)]];
  for (const { kind, name, value } of steps) rows.push(["step", { task: seq, kind, name, value }]);
  if (feedback !== undefined) rows.push(["step", { task: seq, kind: "feedback", name: "", value: feedback }]);
  // Each column by its name: a line of an import may have other fields.
  for (const { fence, attempt, worker, startedAt, endedAt, outcome, error } of attemptRows(record)) {
    const { name = null, message = null, stack = null, fingerprint = null } = error ?? {};
    const times = { started_at: startedAt, ended_at: endedAt };
    rows.push([
      "attempt",
      { task: seq, fence, attempt, worker, ...times, outcome, name, message, stack, fingerprint },
    ]);
  }
  for (const [index, { fence, at, text }] of log.entries())
    rows.push(["log", { task: seq, n: index + 1, fence, at, text }]);
  rows.push(...stateRow(target, record));
  if (MORTAL.has(record.state) && expiresAt !== undefined)
    rows.push(["ttl", { expires_at: expiresAt, task: seq }]);
  return rows;
}

function taskRow(target: ImportTarget, record: TaskEntry): ImportRow {
  const { seq, createdAt } = target.place(record.id);
  return {
    ...{ seq, queue: target.queueId(record.queue), created_at: createdAt, pos: record.pos ?? null },
    ...{ group_key: record.groupKey ?? null, expires_at: record.expiresAt ?? null },
    ...{ max_attempts: record.maxAttempts ?? null, idempotency_key: record.idempotencyKey ?? null },
    content_type: record.contentType ?? null,
    headers: record.headers ? JSON.stringify(record.headers) : null,
    ...{ cost: record.cost ?? null, data: record.data, ...target.taskColumns(record) },
  };
}

/** Without tasks in the line. */
function stateRow(target: ImportTarget, record: TaskEntry): TableRow[] {
  const { state, failures = 0, groupKey, endedAt, result = null } = record;
  const { seq } = target.place(record.id);
  const ofTask = { task: seq, queue: target.queueId(record.queue) };
  const pos = record.pos ?? seq;
  switch (state) {
    case "ready":
      return [];
    case "waiting":
      return [["waiting", { ...ofTask, group_key: groupKey!, pos, rank: rankOf(record), failures }]];
    case "scheduled":
    case "parked": {
      const { dueAt = NEVER, blocksGroup = false, waitsFor = null } = record;
      return [
        ["scheduled", { ...ofTask, pos, due: dueAt, failures, blocks_group: blocksGroup, signal: waitsFor }],
      ];
    }
    case "verifying": {
      const { fence, startedAt, worker, adds = null, each = false, next, ...pending } = record.verifying!;
      const costs = next ? JSON.stringify(next) : null;
      return [
        [
          "verifying",
          {
            ...{ ...ofTask, failures, fence, started_at: startedAt, worker, adds, each, next: costs },
            ...{ result: pending.result, ...target.verifyingColumns(record) },
          },
        ],
      ];
    }
    case "dead": {
      const { fence, worker, error } = record.attempts!.at(-1)!;
      return [["dead", { ...ofTask, died_at: endedAt!, fence, worker, fingerprint: error!.fingerprint }]];
    }
    default: {
      const done = state === "done" ? record.attempts?.at(-1) : undefined;
      return [
        [
          "ended",
          {
            ...{ ...ofTask, state, ended_at: endedAt!, started_at: done?.startedAt ?? null },
            ...{ attempt: done?.attempt ?? null, fence: done?.fence ?? null, worker: done?.worker ?? null },
            result,
          },
        ],
      ];
    }
  }
}
