import { attemptRows, type TaskEntry } from "../../../core/record/record.ts";
import { enterLineAsImported } from "../line/enter-line.ts";
import { type Attempt, rankOf } from "../../../core/task/task.ts";
import { NEVER } from "../../../core/task/transition.ts";
import { INSERT_ATTEMPT, INSERT_DEAD } from "../line/line.ts";
import { changeLane } from "../limits/move-lanes.ts";
import { SPECIAL } from "../statements/special.ts";
import { appendLine } from "../flows/log.ts";
import { keepStep } from "../flows/steps.ts";
import { COUNTED, HEAD_ONLY, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Import: writes the rows of one task. import.ts of this folder calls it. */

const INSERT_TASK = `
  INSERT INTO task (seq, queue, created_at, priority, pos, group_key, expires_at, max_attempts, idempotency_key,
    content_type, headers, cost, data)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

/** After the runs and their parts: a task that is a part is special. */
export function importTask(tx: Tx, record: TaskEntry): void {
  const { seq, createdAt } = tx.place(record.id)!;
  const queue = tx.queues.getOrMake(record.queue);
  const rank = rankOf(record);
  const { groupKey = null, expiresAt = null, maxAttempts = null, idempotencyKey = null } = record;
  const headers = record.headers ? JSON.stringify(record.headers) : null;
  tx.run(
    ...([INSERT_TASK, seq, queue.id, createdAt, 0 - rank, record.pos ?? null, groupKey, expiresAt] as const),
    ...([maxAttempts, idempotencyKey, record.contentType ?? null, headers, record.cost ?? null] as const),
    record.data,
  );
  for (const { kind, name, value } of record.steps ?? []) keepStep(tx, seq, kind, name, value);
  if (record.feedback !== undefined) keepStep(tx, seq, "feedback", "", record.feedback);
  for (const attempt of attemptRows(record)) writeAttempt(tx, seq, attempt);
  for (const line of record.log ?? []) appendLine(tx, seq, line);
  const newState = { seq, queue, rank, pos: record.pos ?? seq };
  writeState(tx, record, newState);
  tx.counters.count(queue, record.state, 1);
  if (WATCHED.has(record.state) && expiresAt !== null) tx.run(INSERT_TTL, expiresAt, seq);
}

/** States in which a time-to-live counts. */
const WATCHED: ReadonlySet<TaskEntry["state"]> = new Set(["ready", "waiting", "scheduled", "parked"]);
const INSERT_TTL = `INSERT INTO ttl (expires_at, task) VALUES (?, ?)`;

function writeAttempt(tx: Tx, seq: number, row: Attempt): void {
  const { attempt, fence, worker, startedAt, endedAt, outcome, error } = row;
  const { name = null, message = null, stack = null, fingerprint = null } = error ?? {};
  tx.run(
    ...([INSERT_ATTEMPT, seq, fence, attempt, worker, startedAt, endedAt, outcome] as const),
    ...([name, message, stack, fingerprint] as const),
  );
}

const INSERT_WAITING = `
  INSERT INTO waiting (queue, group_key, pos, task, rank, failures) VALUES (?, ?, ?, ?, ?, ?)`;
const INSERT_SCHEDULED = `
  INSERT INTO scheduled (queue, pos, task, due, failures, blocks_group, signal) VALUES (?, ?, ?, ?, ?, ?, ?)`;
const INSERT_VERIFYING = `
  INSERT INTO verifying (task, queue, failures, special, fence, started_at, worker, adds, each, next, blocks_group, result, asked)
  SELECT seq, queue, ?, ${SPECIAL}, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM task WHERE seq = ?`;
const INSERT_ENDED = `
  INSERT INTO ended (task, queue, state, ended_at, started_at, attempt, fence, worker, result)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const DEATH = `UPDATE run SET dead = dead + 1 WHERE id = (SELECT run FROM run_part WHERE task = ?)`;

interface NewState {
  seq: number;
  queue: Queue;
  rank: number;
  pos: number;
}

/** Writes the row of its state. */
function writeState(tx: Tx, record: TaskEntry, { seq, queue, rank, pos }: NewState): void {
  const { failures = 0, groupKey, blocksGroup = false, result = null } = record;
  switch (record.state) {
    case "ready": {
      const { elsewhere = null, linePos = pos } = record;
      enterLineAsImported(tx, { queue, rank, pos: linePos, task: seq, failures }, elsewhere);
      if (groupKey !== undefined) holdLane(tx, queue, groupKey, seq);
      return;
    }
    case "waiting":
      tx.run(INSERT_WAITING, queue.id, groupKey!, pos, seq, rank, failures);
      return;
    case "scheduled":
    case "parked": {
      const { dueAt = NEVER, waitsFor = null } = record;
      tx.run(INSERT_SCHEDULED, queue.id, pos, seq, dueAt, failures, blocksGroup ? 1 : 0, waitsFor);
      break;
    }
    case "verifying": {
      const pending = record.verifying!;
      const { fence, startedAt, worker, adds = null, each = false, next, asked } = pending;
      const costs = next ? JSON.stringify(next) : null;
      tx.run(
        ...([INSERT_VERIFYING, failures, fence, startedAt, worker, adds, each ? 1 : 0, costs] as const),
        ...([
          blocksGroup ? 1 : 0,
          pending.result,
          asked === undefined ? null : tx.place(asked)!.seq,
          seq,
        ] as const),
      );
      break;
    }
    case "dead": {
      const { fence, worker, error } = record.attempts!.at(-1)!;
      tx.run(INSERT_DEAD, seq, queue.id, record.endedAt!, fence, worker, error!.fingerprint);
      tx.run(DEATH, seq);
      return;
    }
    default: {
      const last = record.attempts?.at(-1);
      const done = record.state === "done" ? last : undefined;
      tx.run(
        ...([INSERT_ENDED, seq, queue.id, record.state, record.endedAt!, done?.startedAt ?? null] as const),
        ...([done?.attempt ?? null, done?.fence ?? null, done?.worker ?? null, result] as const),
      );
      return;
    }
  }
  if (blocksGroup) holdLane(tx, queue, groupKey!);
}

const TAKE_LANE = `INSERT INTO lane (queue, group_key) VALUES (?, ?) ON CONFLICT DO NOTHING`;

/** It blocks its group. `inLine`: it is in the line. */
function holdLane(tx: Tx, queue: Queue, key: string, inLine?: number): void {
  if (queue.lanes === HEAD_ONLY) {
    tx.run(TAKE_LANE, queue.id, key);
    return;
  }
  changeLane(tx, queue, key, (lane) => {
    lane.holders++;
    if (inLine !== undefined && queue.lanes === COUNTED) lane.line.push(inLine);
  });
}
