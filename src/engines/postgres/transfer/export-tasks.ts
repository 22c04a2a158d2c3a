import type { StoredLine } from "../../../core/handler/attempt-log.ts";
import type { TaskEntry } from "../../../core/record/record.ts";
import type { NextCosts } from "../../../core/run/stage-cost.ts";
import { type Attempt, type EndState, isEnd, type Step } from "../../../core/task/task.ts";
import {
  asScheduled,
  handlerState,
  inElsewhereLine,
  inLine,
  parsed,
  present,
  taskEntry,
  type TaskInState as InState,
  type TaskRow as StoredTask,
} from "../../../engine/export-rows.ts";
import { type AttemptRow, attemptFrom } from "../../../engine/task-records.ts";
import { PAGE } from "../../../engine/transfer.ts";
import type { Connection } from "../connection/connection.ts";
import { fromColumns, fromText, numbers } from "../statements/text.ts";
import type { Source } from "./export.ts";
import { walk } from "./rows.ts";

/** Without payload and result, which may be large. */
type TaskInState = InState & {
  task: number;
  /** The success that ended it. */
  success?: Attempt;
};

interface StateRow {
  task: number;
  pos: number;
  failures: number;
  until: number;
  avoid: string;
  due: number;
  blocks_group: boolean;
  signal: string | null;
  fence: number;
  started_at: number;
  worker: string;
  adds: string | null;
  each: boolean;
  next: string | null;
  asked: number;
  asked_at: number | null;
  stepped_aside: boolean;
  state: Exclude<EndState, "dead">;
  ended_at: number;
  attempt: number;
}

/** Each state is a table, which is read in the order of its key. */
const STATES: { sql: string; inState: (row: StateRow, source: Source) => Omit<TaskInState, "task"> }[] = [
  { sql: `SELECT task, pos, failures FROM dibs.ready ORDER BY queue, rank, pos`, inState: inLine },
  {
    sql: `SELECT task, pos, failures, until, avoid FROM dibs.ready_elsewhere ORDER BY queue, rank, pos`,
    inState: inElsewhereLine,
  },
  { sql: `SELECT task, pos, failures FROM dibs.ready_sticky ORDER BY queue, rank, pos`, inState: inLine },
  {
    sql: `SELECT task, failures FROM dibs.claim ORDER BY task`,
    inState: ({ failures }) => ({ state: "ready", failures }),
  },
  {
    sql: `SELECT task, due, failures, blocks_group, signal FROM dibs.scheduled ORDER BY queue, pos`,
    inState: (row) => asScheduled(row, row.signal === null ? null : fromText(row.signal)),
  },
  {
    // Added by a caller's transaction, and its inbox entry is not processed: it is due now.
    sql: `SELECT task, coalesce(due, -1) AS due FROM dibs.inbox WHERE task IS NOT NULL ORDER BY n`,
    inState: ({ due }, { header }) => ({ state: "scheduled", dueAt: due < 0 ? header.now : due }),
  },
  {
    sql: `SELECT task, failures FROM dibs.waiting ORDER BY queue, group_key, pos`,
    inState: ({ failures }) => ({ state: "waiting", failures }),
  },
  {
    sql: `
      SELECT verifying.task, fence, started_at, failures, worker, adds, "each", next, asked, task.created_at AS asked_at,
        EXISTS (SELECT 1 FROM dibs.stepped_aside WHERE stepped_aside.task = verifying.task) AS stepped_aside
      FROM dibs.verifying LEFT JOIN dibs.task ON task.seq = verifying.asked ORDER BY verifying.task`,
    inState: (row, source) => ({
      ...{ state: "verifying", failures: row.failures },
      ...(!row.stepped_aside && { blocksGroup: true as const }),
      verifying: {
        ...{ fence: row.fence, worker: row.worker, startedAt: row.started_at, result: null },
        ...(row.asked_at !== null && { asked: source.id(row.asked_at, row.asked) }),
        ...present({ adds: row.adds, next: parsed(row.next) as NextCosts | null }),
        ...(row.each && { each: true as const }),
      },
    }),
  },
  {
    sql: `SELECT task, state, ended_at, started_at, fence, attempt, worker FROM dibs.ended ORDER BY task`,
    inState: ({ state, ended_at: endedAt, started_at: startedAt, fence, attempt, worker }) => ({
      ...{ state, endedAt },
      ...(state === "done" && {
        success: { attempt, fence, worker, startedAt, endedAt, outcome: "done", error: null },
      }),
    }),
  },
  {
    sql: `SELECT task, died_at AS ended_at FROM dibs.dead ORDER BY task`,
    inState: ({ ended_at: endedAt }) => ({ state: "dead", endedAt }),
  },
];

/** Rows of a state at a time, which are small. Payloads, results and ledgers are read in pieces of bounded size. */
const SOME = 1_000;

export async function* exportTasks(source: Source): AsyncGenerator<TaskEntry> {
  for (const { sql, inState } of STATES) {
    for await (const rows of walk<StateRow>(source.link, sql, SOME)) {
      const known = rows.map((row) => ({ task: row.task, ...inState(row, source) }));
      for (const piece of await pieces(source.link, known)) yield* load(source, piece);
    }
  }
}

const bytesOf = (...columns: string[]): string =>
  columns.map((column) => `coalesce(octet_length(${column}), 0)`).join(" + ");
const SIZES = `
  SELECT wanted.seq, (
    (SELECT ${bytesOf("data", "bytes")} FROM dibs.task WHERE task.seq = wanted.seq)
    + coalesce((SELECT ${bytesOf("result", "result_bytes")} FROM dibs.ended WHERE ended.task = wanted.seq), 0)
    + coalesce((SELECT ${bytesOf("result", "result_bytes", "adds")} FROM dibs.verifying WHERE verifying.task = wanted.seq), 0)
    + coalesce((SELECT sum(${bytesOf("value", "bytes")}) FROM dibs.step WHERE step.task = wanted.seq), 0)
    + coalesce((SELECT sum(200 + ${bytesOf("message", "stack")}) FROM dibs.attempt WHERE attempt.task = wanted.seq), 0)
    + coalesce((SELECT sum(50 + octet_length(text)) FROM dibs.log WHERE log.task = wanted.seq), 0)
    )::int8 AS size
  FROM unnest($1::int8[]) AS wanted (seq)`;

/** Splits tasks into pieces of at most the bytes of a page. */
async function pieces(link: Connection, inStates: TaskInState[]): Promise<TaskInState[][]> {
  const rows = await link.all<{ seq: number; size: number }>(
    SIZES,
    numbers(inStates.map(({ task }) => task)),
  );
  const sizes = new Map(rows.map(({ seq, size }) => [seq, size]));
  const found: TaskInState[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const inState of inStates) {
    const size = sizes.get(inState.task)!;
    if (bytes + size > PAGE.bytes) {
      found.push([]);
      bytes = 0;
    }
    found.at(-1)!.push(inState);
    bytes += size;
  }
  return found;
}

const TASKS = `SELECT * FROM dibs.task WHERE seq = ANY ($1::int8[])`;
const STEPS = `SELECT * FROM dibs.step WHERE task = ANY ($1::int8[]) ORDER BY task, kind, name`;
const ATTEMPTS = `SELECT * FROM dibs.attempt WHERE task = ANY ($1::int8[]) ORDER BY task, fence`;
const LINES = `SELECT * FROM dibs.log WHERE task = ANY ($1::int8[]) ORDER BY task, n`;
const RESULTS = (table: string): string =>
  `SELECT task, result, result_bytes FROM dibs.${table} WHERE task = ANY ($1::int8[])`;

interface TaskRow extends StoredTask {
  priority: number;
  urgent: boolean | null;
  data: string | null;
  bytes: Uint8Array | null;
}

interface StepRow {
  task: number;
  kind: Step["kind"] | "feedback";
  name: string;
  value: string | null;
  bytes: Uint8Array | null;
}

interface ResultRow {
  task: number;
  result: string | null;
  result_bytes: Uint8Array | null;
}

async function* load(source: Source, inStates: readonly TaskInState[]): AsyncGenerator<TaskEntry> {
  const { link } = source;
  const seqs = numbers(inStates.map(({ task }) => task));
  const { state } = inStates[0]!;
  const table = state === "verifying" ? "verifying" : isEnd(state) && state !== "dead" ? "ended" : undefined;
  const [tasks, steps, attempts, lines, results] = await Promise.all([
    link.all<TaskRow>(TASKS, seqs),
    link.all<StepRow>(STEPS, seqs),
    link.all<AttemptRow & { task: number }>(ATTEMPTS, seqs),
    link.all<StoredLine & { task: number }>(LINES, seqs),
    table ? link.all<ResultRow>(RESULTS(table), seqs) : [],
  ]);
  const rows = new Map(tasks.map((row) => [row.seq, row]));
  const stepsOf = Map.groupBy(steps, ({ task }) => task);
  const attemptsOf = Map.groupBy(attempts, ({ task }) => task);
  const linesOf = Map.groupBy(lines, ({ task }) => task);
  const resultOf = new Map(
    results.map(({ task, result, result_bytes: bytes }) => [task, fromColumns(result, bytes)]),
  );
  for (const inState of inStates) {
    const { task } = inState;
    const result = resultOf.get(task) ?? null;
    yield {
      ...entry(source, rows.get(task)!, inState),
      ...(inState.verifying && { verifying: { ...inState.verifying, result } }),
      ...(!inState.verifying && result !== null && { result }),
      ...handlerState((stepsOf.get(task) ?? []).map(stepFrom)),
      ...ledger(attemptsOf.get(task) ?? [], inState.success),
      ...(linesOf.has(task) && { log: linesOf.get(task)!.map(lineFrom) }),
    };
  }
}

function entry(source: Source, row: TaskRow, known: TaskInState): TaskEntry {
  const { task: _, success: __, ...inState } = known;
  const queue = source.queues.get(row.queue)!;
  const data = fromColumns(row.data, row.bytes)!;
  const { priority, urgent } = row;
  return taskEntry(source, row, { queue, data, priority, urgent: urgent ?? false }, inState);
}

function stepFrom({ kind, name, value, bytes }: StepRow) {
  return { kind, name: fromText(name), value: fromColumns(value, bytes) };
}

function ledger(rows: readonly AttemptRow[], success: Attempt | undefined): Pick<TaskEntry, "attempts"> {
  const attempts = rows.map((row) => attemptFrom(row, fromText));
  if (success) attempts.push(success);
  return attempts.length > 0 ? { attempts } : {};
}

function lineFrom({ fence, at, text }: StoredLine): StoredLine {
  return { fence, at, text: fromText(text) };
}
