import {
  type EndState,
  isEnd,
  rankOf,
  type TravellingAttempt,
  type TravellingResult,
  type TravellingTask,
} from "../../../core/task.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { INSERT_KEY, INSERT_TASK, takenKey } from "./add.ts";
import {
  announceTask,
  enter,
  INSERT_ATTEMPT,
  INSERT_DEAD,
  type Mover,
  NEVER,
  schedule,
  takeLane,
  watchTtl,
} from "../line/line.ts";
import { contentTypeOf, headersOf } from "../transaction/newcomers.ts";
import { keepStep } from "../flows/steps.ts";
import type { Tx } from "../transaction/tx.ts";
import { insertVerifying } from "../flows/verify.ts";

const ORIGIN = `SELECT task, created_at FROM origin WHERE id = ?`;
const INSERT_ORIGIN = `INSERT INTO origin (id, task, created_at) VALUES (?, ?, ?)`;

interface OriginRow {
  task: number;
  created_at: number;
}

export function arrive(tx: Tx, tasks: TravellingTask[]): Verbs["arrive"]["out"] {
  return { store: tx.salt, tasks: tasks.map((task) => arriveOne(tx, task)) };
}

function arriveOne(tx: Tx, task: TravellingTask): { id: string; existing: boolean } {
  const known = tx.get<OriginRow>(ORIGIN, task.origin);
  if (known) return { id: tx.id(known.created_at, known.task), existing: true };
  const key = task.holdsKey ? task.idempotencyKey! : undefined;
  const taken = key === undefined ? undefined : takenKey(tx, { queue: task.queue, idempotencyKey: key });
  if (taken && !isEnd(task.state)) {
    tx.run(INSERT_ORIGIN, task.origin, taken.task, taken.created_at);
    return { id: tx.id(taken.created_at, taken.task), existing: true };
  }
  const arrived = settleIn(tx, task);
  tx.run(INSERT_ORIGIN, task.origin, arrived.seq, arrived.createdAt);
  if (key !== undefined && !taken) holdKey(tx, arrived, key, task);
  return { id: tx.id(arrived.createdAt, arrived.seq), existing: false };
}

const END_KEY = `UPDATE idempotency SET forget_at = ?, state = ? WHERE queue = ? AND key = ?`;

function holdKey(tx: Tx, { queue, seq, createdAt }: Mover, key: string, task: TravellingTask): void {
  tx.run(INSERT_KEY, queue.id, key, seq, createdAt);
  if (isEnd(task.state)) tx.run(END_KEY, tx.now + task.keyFor!, task.state, queue.id, key);
}

function settleIn(tx: Tx, task: TravellingTask): Mover {
  const { now } = tx;
  const queue = tx.queue(task.queue);
  const seq = ++tx.seq;
  const arrived: Mover = {
    seq,
    queue,
    createdAt: now - task.age,
    rank: rankOf(task),
    pos: seq,
    groupKey: task.groupKey,
    holdsGroup: false,
    expiresAt: task.expiresIn === null ? null : now + task.expiresIn,
    maxAttempts: task.maxAttempts,
    keyed: task.idempotencyKey !== null,
    failures: task.failures,
  };
  tx.run(
    INSERT_TASK,
    seq,
    queue.id,
    arrived.createdAt,
    0 - arrived.rank,
    task.groupKey,
    arrived.expiresAt,
    task.maxAttempts,
    task.idempotencyKey,
    contentTypeOf(task),
    headersOf(task),
    task.data,
    task.cost,
  );
  const last = writeLedger(tx, seq, task);
  for (const { kind, name, value } of task.steps) keepStep(tx, seq, kind, name, value);
  if (task.feedback !== null) keepStep(tx, seq, "feedback", "", task.feedback);
  if (isEnd(task.state)) {
    end(tx, arrived, task, task.state, last);
    return arrived;
  }
  tx.flow(queue).added++;
  announceTask(tx, "task.added", arrived, {});
  lineUp(tx, arrived, task);
  return arrived;
}

/** Under new fences, which later claims of this store will be above. Answers the last one; a success is in `ended`. */
function writeLedger(tx: Tx, seq: number, { ledger }: TravellingTask): number {
  for (const row of ledger) {
    tx.fence++;
    if (row.outcome !== "done") writeAttempt(tx, seq, tx.fence, row);
  }
  return tx.fence;
}

function writeAttempt(tx: Tx, seq: number, fence: number, row: TravellingAttempt): void {
  const { attempt, worker, startedAgo, endedAgo, outcome, error } = row;
  tx.run(
    INSERT_ATTEMPT,
    seq,
    fence,
    attempt,
    worker,
    tx.now - startedAgo,
    tx.now - endedAgo,
    outcome,
    error && error.name,
    error && error.message,
    error && error.stack,
    error && error.fingerprint,
  );
}

const INSERT_ENDED = `
  INSERT INTO ended (task, queue, state, ended_at, started_at, attempt, fence, worker, result)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`;

function end(tx: Tx, { seq, queue }: Mover, task: TravellingTask, state: EndState, fence: number): void {
  const endedAt = tx.now - task.endedAgo!;
  const last = task.ledger.at(-1);
  tx.count(queue, state, 1);
  if (state === "dead") {
    tx.run(INSERT_DEAD, seq, queue.id, endedAt, fence, last!.worker, last!.error!.fingerprint);
    return;
  }
  const success = last?.outcome === "done" ? last : undefined;
  tx.run(
    INSERT_ENDED,
    seq,
    queue.id,
    state,
    endedAt,
    success ? tx.now - success.startedAgo : null,
    success?.attempt ?? null,
    success ? fence : null,
    success?.worker ?? null,
    task.result,
  );
}

function lineUp(tx: Tx, arrived: Mover, task: TravellingTask): void {
  if (task.pending) return askAgain(tx, arrived, task.pending);
  watchTtl(tx, arrived);
  const { dueIn, holdsGroup } = task;
  const signal = task.waitsFor ?? undefined;
  // A parked one whose time has passed on its way is told so by the next sweep.
  const later = signal !== undefined || (dueIn !== null && dueIn > 0);
  // The head of its group waits for its next try as the head; where there is another here, it waits behind that.
  const isHead = later && holdsGroup && takeLane(tx, arrived);
  if (!later || holdsGroup !== isHead) enter(tx, arrived);
  else schedule(tx, arrived, dueIn === null ? NEVER : tx.now + dueIn, signal);
}

/** Whoever was asked for a verdict in the other store has no say here. */
function askAgain(tx: Tx, arrived: Mover, { worker, startedAgo, result, adds }: TravellingResult): void {
  const attempt = { fence: ++tx.fence, worker, startedAt: tx.now - startedAgo };
  if (arrived.groupKey === null || takeLane(tx, arrived)) {
    insertVerifying(tx, { ...arrived, ...attempt }, result, adds);
    return;
  }
  // Its group has another head here, so that it cannot be the one that the group waits for: it is to be done again.
  writeAttempt(tx, arrived.seq, attempt.fence, {
    attempt: arrived.failures + 1,
    worker,
    startedAgo,
    endedAgo: 0,
    outcome: "released",
    error: null,
  });
  watchTtl(tx, arrived);
  enter(tx, arrived);
}

export function origins(tx: Tx, ids: string[]): (string | null)[] {
  return ids.map((id) => {
    const row = tx.get<OriginRow>(ORIGIN, id);
    return row ? tx.id(row.created_at, row.task) : null;
  });
}
