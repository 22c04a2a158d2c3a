import type { PendingResult, TaskEntry } from "../../../core/record/record.ts";
import type { NextCosts } from "../../../core/run/stage-cost.ts";
import { type Body, type EndState, fromRank, isEnd, type Step } from "../../../core/task/task.ts";
import {
  asScheduled,
  handlerState,
  inElsewhereLine,
  inLine,
  type LineRow,
  parsed,
  present,
  type ScheduledRow,
  taskEntry,
  type TaskInState,
  type TaskRow,
} from "../../../engine/export-rows.ts";
import { bodyFrom } from "../statements/body.ts";
import type { VerifyingRow } from "../line/held.ts";
import { logOf } from "../flows/log.ts";
import { ledger } from "../verbs/inspect.ts";
import type { Tx } from "../transaction/tx.ts";

/** Export: reads the tasks of every state as records. export.ts of this folder calls it. */

type OfTask<Row> = Row & { task: number };

/** Each state is a table, which is read in the order of its key. */
export function* exportTasks(tx: Tx): Generator<TaskEntry> {
  for (const row of tx.each<OfTask<LineRow>>(READY)) yield entry(tx, row.task, inLine(row));
  for (const row of tx.each<OfTask<LineRow & { until: number; avoid: string }>>(ELSEWHERE))
    yield entry(tx, row.task, inElsewhereLine(row));
  for (const row of tx.each<OfTask<LineRow>>(STICKY)) yield entry(tx, row.task, inLine(row));
  for (const { task, failures } of tx.each<{ task: number; failures: number }>(CLAIMED))
    yield entry(tx, task, { state: "ready", failures });
  for (const row of tx.each<OfTask<ScheduledRow & { signal: string | null }>>(SCHEDULED))
    yield entry(tx, row.task, asScheduled(row, row.signal));
  for (const { task, failures } of tx.each<{ task: number; failures: number }>(WAITING))
    yield entry(tx, task, { state: "waiting", failures });
  for (const row of tx.each<VerifyingRow>(VERIFYING)) yield entry(tx, row.task, verifying(tx, row));
  for (const row of tx.each<EndedRow>(ENDED)) yield entry(tx, row.task, ended(row));
  for (const { task, died_at: endedAt } of tx.each<{ task: number; died_at: number }>(DEAD))
    yield entry(tx, task, { state: "dead", endedAt });
}

const READY = `SELECT task, pos, failures FROM ready ORDER BY queue, rank, pos`;
const ELSEWHERE = `SELECT task, pos, failures, until, avoid FROM ready_elsewhere ORDER BY queue, rank, pos`;
const STICKY = `SELECT task, pos, failures FROM ready_sticky ORDER BY queue, session, rank, pos`;
const CLAIMED = `SELECT task, failures FROM claim ORDER BY task`;
const SCHEDULED = `SELECT task, due, failures, blocks_group, signal FROM scheduled ORDER BY queue, pos`;
const WAITING = `SELECT task, failures FROM waiting ORDER BY queue, group_key, pos`;
const VERIFYING = `SELECT * FROM verifying ORDER BY task`;
const ENDED = `SELECT task, state, ended_at, result FROM ended ORDER BY task`;
const DEAD = `SELECT task, died_at FROM dead ORDER BY task`;

const ASKED_AT = `SELECT created_at FROM task WHERE seq = ?`;

function verifying(tx: Tx, row: VerifyingRow): TaskInState {
  const { fence, worker, started_at: startedAt, adds, failures, blocks_group: holds } = row;
  const asked = row.asked === null ? undefined : tx.get<{ created_at: number }>(ASKED_AT, row.asked);
  const pending: PendingResult = {
    ...{ fence, worker, startedAt, result: bodyFrom(row.result) },
    ...(asked && { asked: tx.id(asked.created_at, row.asked) }),
    ...present({ adds, next: parsed(row.next) as NextCosts | null }),
    ...(row.each === 1 && { each: true as const }),
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

function ended({ state, ended_at: endedAt, result }: EndedRow): TaskInState {
  return { state, endedAt, ...present({ result: bodyFrom(result) }) };
}

const TASK = `SELECT * FROM task WHERE seq = ?`;
const STEPS = `SELECT kind, name, value FROM step WHERE task = ? ORDER BY kind, name`;

interface StepRow {
  kind: Step["kind"] | "feedback";
  name: string;
  value: Body | null;
}

function entry(tx: Tx, seq: number, { failures = 0, ...inState }: TaskInState): TaskEntry {
  const row = tx.get<TaskRow & { priority: number; data: Body }>(TASK, seq)!;
  const { priority, urgent } = fromRank(0 - row.priority);
  const queue = tx.queues.of(row.queue).name;
  const attempts = ledger(tx, seq);
  const log = logOf(tx, seq);
  const steps = tx.all<StepRow>(STEPS, seq).map((step) => ({ ...step, value: bodyFrom(step.value) }));
  return {
    ...taskEntry(
      tx,
      row,
      { queue, data: bodyFrom(row.data), priority, urgent },
      { ...inState, failures: isEnd(inState.state) ? 0 : failures },
    ),
    ...handlerState(steps),
    ...(attempts.length > 0 && { attempts }),
    ...(log.length > 0 && { log }),
  };
}
