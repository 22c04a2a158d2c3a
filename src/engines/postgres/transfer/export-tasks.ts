import type { TaskEntry } from "../../../core/record.ts";
import type { NextCosts } from "../../../core/stage-cost.ts";
import {
  type Attempt,
  type AttemptOutcome,
  type EndState,
  type Headers,
  isEnd,
  type Step,
} from "../../../core/task.ts";
import { PAGE } from "../../../engine/transfer.ts";
import { NEVER } from "../line/line.ts";
import type { Connection } from "../connection/connection.ts";
import { fromColumns, fromText, numbers } from "../statements/text.ts";
import type { Source } from "./export.ts";
import { walk } from "./rows.ts";

/** What the table of its state says of a task, but for what may be large. */
interface Standing extends Pick<
  TaskEntry,
  "state" | "elsewhere" | "dueAt" | "waitsFor" | "holdsGroup" | "verifying" | "endedAt"
> {
  task: number;
  failures?: number;
  place?: number;
  /** The success that ended it. */
  success?: Attempt;
}

interface StandingRow {
  task: number;
  pos: number;
  failures: number;
  until: number;
  avoid: string;
  due: number;
  holds_group: boolean;
  signal: string | null;
  fence: number;
  started_at: number;
  worker: string;
  adds: string | null;
  each: boolean;
  next: string | null;
  asked: number;
  asked_at: number | null;
  aside: boolean;
  state: Exclude<EndState, "dead">;
  ended_at: number;
  attempt: number;
}

/** A state is a table: each is walked from end to end, in the order of its key. */
const STATES: { sql: string; standing: (row: StandingRow, source: Source) => Omit<Standing, "task"> }[] = [
  {
    sql: `SELECT task, pos, failures FROM dibs.ready ORDER BY queue, rank, pos`,
    standing: ({ pos: place, failures }) => ({ state: "ready", place, failures }),
  },
  {
    sql: `SELECT task, pos, failures, until, avoid FROM dibs.kept ORDER BY queue, rank, pos`,
    standing: ({ pos: place, failures, until, avoid }) => ({
      ...{ state: "ready", place, failures },
      elsewhere: { until, avoid: JSON.parse(avoid) as string[] },
    }),
  },
  {
    sql: `SELECT task, pos, failures FROM dibs.own ORDER BY queue, rank, pos`,
    standing: ({ pos: place, failures }) => ({ state: "ready", place, failures }),
  },
  {
    sql: `SELECT task, failures FROM dibs.claim ORDER BY task`,
    standing: ({ failures }) => ({ state: "ready", failures }),
  },
  {
    sql: `SELECT task, due, failures, holds_group, signal FROM dibs.scheduled ORDER BY queue, pos`,
    standing: ({ due, failures, holds_group: holds, signal }) => ({
      ...{ state: signal === null ? "scheduled" : "parked", failures },
      ...(due !== NEVER && { dueAt: due }),
      ...(signal !== null && { waitsFor: fromText(signal) }),
      ...(holds && { holdsGroup: true as const }),
    }),
  },
  {
    // Committed by a transaction of somebody's, and not yet lined up: it is due at once.
    sql: `SELECT task, coalesce(due, -1) AS due FROM dibs.inbox WHERE task IS NOT NULL ORDER BY n`,
    standing: ({ due }, { header }) => ({ state: "scheduled", dueAt: due < 0 ? header.now : due }),
  },
  {
    sql: `SELECT task, failures FROM dibs.waiting ORDER BY queue, group_key, pos`,
    standing: ({ failures }) => ({ state: "waiting", failures }),
  },
  {
    sql: `
      SELECT verifying.task, fence, started_at, failures, worker, adds, "each", next, asked, task.created_at AS asked_at,
        EXISTS (SELECT 1 FROM dibs.aside WHERE aside.task = verifying.task) AS aside
      FROM dibs.verifying LEFT JOIN dibs.task ON task.seq = verifying.asked ORDER BY verifying.task`,
    standing: (row, source) => ({
      ...{ state: "verifying", failures: row.failures },
      ...(!row.aside && { holdsGroup: true as const }),
      verifying: {
        ...{ fence: row.fence, worker: row.worker, startedAt: row.started_at, result: null },
        ...(row.asked_at !== null && { asked: source.id(row.asked_at, row.asked) }),
        ...(row.adds !== null && { adds: row.adds }),
        ...(row.each && { each: true as const }),
        ...(row.next !== null && { next: JSON.parse(row.next) as NextCosts }),
      },
    }),
  },
  {
    sql: `SELECT task, state, ended_at, started_at, fence, attempt, worker FROM dibs.ended ORDER BY task`,
    standing: ({ state, ended_at: endedAt, started_at: startedAt, fence, attempt, worker }) => ({
      ...{ state, endedAt },
      ...(state === "done" && {
        success: { attempt, fence, worker, startedAt, endedAt, outcome: "done", error: null },
      }),
    }),
  },
  {
    sql: `SELECT task, died_at AS ended_at FROM dibs.dead ORDER BY task`,
    standing: ({ ended_at: endedAt }) => ({ state: "dead", endedAt }),
  },
];

/** Rows of a state at a time: small ones. What belongs to them is read in pieces of bounded size. */
const SOME = 1_000;

export async function* exportTasks(source: Source): AsyncGenerator<TaskEntry> {
  for (const { sql, standing } of STATES) {
    for await (const rows of walk<StandingRow>(source.link, sql, SOME)) {
      const known = rows.map((row) => ({ task: row.task, ...standing(row, source) }));
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
    )::int8 AS size
  FROM unnest($1::int8[]) AS wanted (seq)`;

/** As many at a time as a page has bytes. */
async function pieces(link: Connection, standings: Standing[]): Promise<Standing[][]> {
  const rows = await link.all<{ seq: number; size: number }>(
    SIZES,
    numbers(standings.map(({ task }) => task)),
  );
  const sizes = new Map(rows.map(({ seq, size }) => [seq, size]));
  const found: Standing[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const standing of standings) {
    const size = sizes.get(standing.task)!;
    if (bytes + size > PAGE.bytes) {
      found.push([]);
      bytes = 0;
    }
    found.at(-1)!.push(standing);
    bytes += size;
  }
  return found;
}

const TASKS = `SELECT * FROM dibs.task WHERE seq = ANY ($1::int8[])`;
const STEPS = `SELECT * FROM dibs.step WHERE task = ANY ($1::int8[]) ORDER BY task, kind, name`;
const ATTEMPTS = `SELECT * FROM dibs.attempt WHERE task = ANY ($1::int8[]) ORDER BY task, fence`;
const RESULTS = (table: string): string =>
  `SELECT task, result, result_bytes FROM dibs.${table} WHERE task = ANY ($1::int8[])`;

interface TaskRow {
  seq: number;
  created_at: number;
  pos: number | null;
  expires_at: number | null;
  queue: number;
  max_attempts: number | null;
  priority: number;
  urgent: boolean | null;
  cost: number | null;
  group_key: string | null;
  idempotency_key: string | null;
  content_type: string | null;
  headers: string | null;
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

interface AttemptRow {
  task: number;
  fence: number;
  started_at: number;
  ended_at: number;
  attempt: number;
  worker: string;
  outcome: AttemptOutcome;
  name: string | null;
  message: string;
  stack: string | null;
  fingerprint: string;
}

interface ResultRow {
  task: number;
  result: string | null;
  result_bytes: Uint8Array | null;
}

async function* load(source: Source, standings: readonly Standing[]): AsyncGenerator<TaskEntry> {
  const { link } = source;
  const seqs = numbers(standings.map(({ task }) => task));
  const { state } = standings[0]!;
  const table = state === "verifying" ? "verifying" : isEnd(state) && state !== "dead" ? "ended" : undefined;
  const [tasks, steps, attempts, results] = await Promise.all([
    link.all<TaskRow>(TASKS, seqs),
    link.all<StepRow>(STEPS, seqs),
    link.all<AttemptRow>(ATTEMPTS, seqs),
    table ? link.all<ResultRow>(RESULTS(table), seqs) : [],
  ]);
  const rows = new Map(tasks.map((row) => [row.seq, row]));
  const stepsOf = Map.groupBy(steps, ({ task }) => task);
  const attemptsOf = Map.groupBy(attempts, ({ task }) => task);
  const resultOf = new Map(
    results.map(({ task, result, result_bytes: bytes }) => [task, fromColumns(result, bytes)]),
  );
  for (const standing of standings) {
    const { task } = standing;
    const result = resultOf.get(task) ?? null;
    yield {
      ...entry(source, rows.get(task)!, standing),
      ...(standing.verifying && { verifying: { ...standing.verifying, result } }),
      ...(!standing.verifying && result !== null && { result }),
      ...leftBehind(stepsOf.get(task) ?? []),
      ...ledger(attemptsOf.get(task) ?? [], standing.success),
    };
  }
}

function entry(source: Source, row: TaskRow, standing: Standing): TaskEntry {
  const { task: seq, failures = 0, place, holdsGroup, success: _, ...rest } = standing;
  const pos = row.pos ?? seq;
  return {
    ...{ type: "task", id: source.id(row.created_at, seq), queue: source.queues.get(row.queue)! },
    ...rest,
    data: fromColumns(row.data, row.bytes)!,
    ...(row.content_type !== null && { contentType: row.content_type }),
    ...(row.headers !== null && { headers: JSON.parse(row.headers) as Headers }),
    ...(row.priority !== 0 && { priority: row.priority }),
    ...(row.urgent && { urgent: true as const }),
    ...(row.cost !== null && { cost: row.cost }),
    ...(row.group_key !== null && { groupKey: row.group_key }),
    ...(row.idempotency_key !== null && { idempotencyKey: row.idempotency_key }),
    ...(row.max_attempts !== null && { maxAttempts: row.max_attempts }),
    ...(row.expires_at !== null && { expiresAt: row.expires_at }),
    ...(pos !== seq && { pos }),
    ...(failures > 0 && { failures }),
    ...(place !== undefined && place !== pos && { place }),
    ...(holdsGroup && row.group_key !== null && { holdsGroup }),
  };
}

function leftBehind(rows: readonly StepRow[]): Pick<TaskEntry, "steps" | "feedback"> {
  const feedback = rows.find(({ kind }) => kind === "feedback");
  const steps = rows.flatMap(({ kind, name, value, bytes }): Step[] =>
    kind === "feedback" ? [] : [{ kind, name: fromText(name), value: fromColumns(value, bytes) }],
  );
  return {
    ...(steps.length > 0 && { steps }),
    ...(feedback && { feedback: fromText(feedback.value!) }),
  };
}

function ledger(rows: readonly AttemptRow[], success: Attempt | undefined): Pick<TaskEntry, "attempts"> {
  const attempts = rows.map(attemptFrom);
  if (success) attempts.push(success);
  return attempts.length > 0 ? { attempts } : {};
}

function attemptFrom(row: AttemptRow): Attempt {
  const { attempt, fence, worker, outcome, name, message, stack, fingerprint } = row;
  return {
    ...{ attempt, fence, worker, startedAt: row.started_at, endedAt: row.ended_at, outcome },
    error:
      name === null
        ? null
        : {
            name: fromText(name),
            message: fromText(message),
            stack: stack === null ? null : fromText(stack),
            fingerprint: fromText(fingerprint),
          },
  };
}
