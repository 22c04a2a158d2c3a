import type { PendingResult, TaskEntry } from "../../../core/record.ts";
import type { NextCosts } from "../../../core/stage-cost.ts";
import { type Body, type EndState, fromRank, type Headers, isEnd, type Step } from "../../../core/task.ts";
import { bodyFrom } from "../statements/body.ts";
import type { VerifyingRow } from "../line/held.ts";
import { logOf } from "../flows/log.ts";
import { ledger } from "../verbs/inspect.ts";
import { NEVER } from "../../../core/transition.ts";
import type { Tx } from "../transaction/tx.ts";

/** A state is a table: each is read from end to end, in the order of its key. */
export function* exportTasks(tx: Tx): Generator<TaskEntry> {
  for (const { task, ...row } of tx.each<InLineRow>(READY)) yield entry(tx, task, inLine(row));
  for (const { task, until, avoid, ...row } of tx.each<InLineRow & { until: number; avoid: string }>(
    ELSEWHERE,
  ))
    yield entry(tx, task, {
      ...inLine(row),
      elsewhere: { until, avoid: JSON.parse(avoid) as string[] },
    });
  for (const { task, ...row } of tx.each<InLineRow>(STICKY)) yield entry(tx, task, inLine(row));
  for (const { task, failures } of tx.each<{ task: number; failures: number }>(CLAIMED))
    yield entry(tx, task, { state: "ready", failures });
  for (const row of tx.each<ScheduledRow>(SCHEDULED)) yield entry(tx, row.task, scheduled(row));
  for (const { task, failures } of tx.each<{ task: number; failures: number }>(WAITING))
    yield entry(tx, task, { state: "waiting", failures });
  for (const row of tx.each<VerifyingRow>(VERIFYING)) yield entry(tx, row.task, verifying(tx, row));
  for (const row of tx.each<EndedRow>(ENDED)) yield entry(tx, row.task, ended(row));
  for (const { task, died_at: endedAt } of tx.each<{ task: number; died_at: number }>(DEAD))
    yield entry(tx, task, { state: "dead", endedAt });
}

/** The columns that the table of its state has. */
type Standing = Pick<TaskEntry, "state" | "elsewhere" | "dueAt" | "waitsFor" | "blocksGroup" | "verifying"> &
  Pick<TaskEntry, "endedAt" | "result"> & { failures?: number; linePos?: number };

const READY = `SELECT task, pos, failures FROM ready ORDER BY queue, rank, pos`;
const ELSEWHERE = `SELECT task, pos, failures, until, avoid FROM ready_elsewhere ORDER BY queue, rank, pos`;
const STICKY = `SELECT task, pos, failures FROM ready_sticky ORDER BY queue, session, rank, pos`;
const CLAIMED = `SELECT task, failures FROM claim ORDER BY task`;
const SCHEDULED = `SELECT task, due, failures, blocks_group, signal FROM scheduled ORDER BY queue, pos`;
const WAITING = `SELECT task, failures FROM waiting ORDER BY queue, group_key, pos`;
const VERIFYING = `SELECT * FROM verifying ORDER BY task`;
const ENDED = `SELECT task, state, ended_at, result FROM ended ORDER BY task`;
const DEAD = `SELECT task, died_at FROM dead ORDER BY task`;

interface InLineRow {
  task: number;
  pos: number;
  failures: number;
}

function inLine({ pos: linePos, failures }: Omit<InLineRow, "task">): Standing {
  return { state: "ready", linePos, failures };
}

interface ScheduledRow {
  task: number;
  due: number;
  failures: number;
  blocks_group: number;
  signal: string | null;
}

function scheduled({ due, failures, blocks_group: holds, signal }: ScheduledRow): Standing {
  return {
    state: signal === null ? "scheduled" : "parked",
    failures,
    ...(due !== NEVER && { dueAt: due }),
    ...(signal !== null && { waitsFor: signal }),
    ...(holds === 1 && { blocksGroup: true as const }),
  };
}

const ASKED_AT = `SELECT created_at FROM task WHERE seq = ?`;

function verifying(tx: Tx, row: VerifyingRow): Standing {
  const { fence, worker, started_at: startedAt, adds, each, next, failures, blocks_group: holds } = row;
  const asked = row.asked === null ? undefined : tx.get<{ created_at: number }>(ASKED_AT, row.asked);
  const pending: PendingResult = {
    ...{ fence, worker, startedAt, result: bodyFrom(row.result) },
    ...(asked && { asked: tx.id(asked.created_at, row.asked) }),
    ...(adds !== null && { adds }),
    ...(each === 1 && { each: true as const }),
    ...(next !== null && { next: JSON.parse(next) as NextCosts }),
  };
  return {
    ...{ state: "verifying", failures, verifying: pending },
    ...(holds === 1 && { blocksGroup: true as const }),
  };
}

interface EndedRow {
  task: number;
  state: Exclude<EndState, "dead">;
  ended_at: number;
  result: Body | null;
}

function ended({ state, ended_at: endedAt, result }: EndedRow): Standing {
  return { state, endedAt, ...(result !== null && { result: bodyFrom(result) }) };
}

const TASK = `SELECT * FROM task WHERE seq = ?`;
const STEPS = `SELECT kind, name, value FROM step WHERE task = ? ORDER BY kind, name`;

interface TaskRow {
  seq: number;
  queue: number;
  created_at: number;
  priority: number;
  pos: number | null;
  group_key: string | null;
  expires_at: number | null;
  max_attempts: number | null;
  idempotency_key: string | null;
  content_type: string | null;
  headers: string | null;
  cost: number | null;
  data: Body;
}

interface StepRow {
  kind: Step["kind"] | "feedback";
  name: string;
  value: Body | null;
}

function entry(
  tx: Tx,
  seq: number,
  { failures = 0, linePos, blocksGroup, ...standing }: Standing,
): TaskEntry {
  const row = tx.get<TaskRow>(TASK, seq)!;
  const { priority, urgent } = fromRank(0 - row.priority);
  const attempts = ledger(tx, seq);
  const log = logOf(tx, seq);
  const rows = tx.all<StepRow>(STEPS, seq);
  const feedback = rows.find(({ kind }) => kind === "feedback");
  const steps = rows
    .filter((step): step is Step => step.kind !== "feedback")
    .map(({ kind, name, value }) => ({ kind, name, value: bodyFrom(value) }));
  const pos = row.pos ?? seq;
  return {
    ...{ type: "task", id: tx.id(row.created_at, seq), queue: tx.queues.of(row.queue).name },
    ...standing,
    data: bodyFrom(row.data),
    ...(row.content_type !== null && { contentType: row.content_type }),
    ...(row.headers !== null && { headers: JSON.parse(row.headers) as Headers }),
    ...(priority !== 0 && { priority }),
    ...(urgent && { urgent: true as const }),
    ...(row.cost !== null && { cost: row.cost }),
    ...(row.group_key !== null && { groupKey: row.group_key }),
    ...(row.idempotency_key !== null && { idempotencyKey: row.idempotency_key }),
    ...(row.max_attempts !== null && { maxAttempts: row.max_attempts }),
    ...(row.expires_at !== null && { expiresAt: row.expires_at }),
    ...(pos !== seq && { pos }),
    ...(failures > 0 && !isEnd(standing.state) && { failures }),
    ...(linePos !== undefined && linePos !== pos && { linePos }),
    ...(blocksGroup && row.group_key !== null && { blocksGroup }),
    ...(steps.length > 0 && { steps }),
    ...(feedback && { feedback: feedback.value as string }),
    ...(attempts.length > 0 && { attempts }),
    ...(log.length > 0 && { log }),
  };
}
