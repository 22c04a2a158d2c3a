import type { EndState } from "../../core/task.ts";
import { DELETE_STEPS, dropClaim, freeGroup, type Held, type Mover, STEPPED, unwatchTtl } from "./line.ts";
import type { Tx } from "./tx.ts";

/** Where a task stands: which of the states' tables has it. */
export type Place =
  | { state: "claimed"; held: Held }
  | { state: "ready"; kept: boolean; failures: number }
  | { state: "scheduled"; due: number; failures: number; holdsGroup: boolean }
  | { state: "parked"; due: number; failures: number; holdsGroup: boolean; signal: string }
  | { state: "waiting" }
  | { state: EndState };

const TASK = `
  SELECT queue, created_at, priority, pos, group_key, expires_at, max_attempts, idempotency_key
  FROM task WHERE seq = ?`;

interface TaskRow {
  queue: number;
  created_at: number;
  priority: number;
  pos: number | null;
  group_key: string | null;
  expires_at: number | null;
  max_attempts: number | null;
  idempotency_key: string | null;
}

/** A task and where it stands; what a move needs is filled in from there. */
export interface Found extends Mover {
  place: Place;
  key: string | null;
}

export function findTask(tx: Tx, id: string): Found | undefined {
  const known = tx.place(id);
  const found = known && findBySeq(tx, known.seq);
  return found?.createdAt === known?.createdAt ? found : undefined;
}

export function findBySeq(tx: Tx, seq: number): Found | undefined {
  const task = taskBySeq(tx, seq);
  if (!task) return undefined;
  const place = findPlace(tx, task);
  const holdsGroup =
    task.groupKey !== null &&
    (place.state === "claimed" || place.state === "ready" || ("holdsGroup" in place && place.holdsGroup));
  const failures = place.state === "claimed" ? place.held.failures : "failures" in place ? place.failures : 0;
  return { ...task, place, holdsGroup, failures };
}

/** The task alone: whether it holds its group, and how often it failed, is known where it stands. */
export function taskBySeq(tx: Tx, seq: number): Omit<Found, "place"> | undefined {
  const row = tx.get<TaskRow>(TASK, seq);
  return (
    row && {
      seq,
      queue: tx.queueOf(row.queue),
      createdAt: row.created_at,
      rank: 0 - row.priority,
      pos: row.pos ?? seq,
      groupKey: row.group_key,
      holdsGroup: false,
      expiresAt: row.expires_at,
      maxAttempts: row.max_attempts,
      keyed: row.idempotency_key !== null,
      key: row.idempotency_key,
      failures: 0,
    }
  );
}

const READY = `SELECT failures FROM ready WHERE queue = ? AND rank = ? AND pos = ?`;
const KEPT = `SELECT failures FROM kept WHERE queue = ? AND rank = ? AND pos = ?`;
const SCHEDULED = `SELECT due, failures, holds_group, signal FROM scheduled WHERE queue = ? AND pos = ?`;
const WAITING = `SELECT 1 FROM waiting WHERE queue = ? AND group_key = ? AND pos = ?`;
const ENDED = `SELECT state FROM ended WHERE task = ?`;

interface ScheduledRow {
  due: number;
  failures: number;
  holds_group: number;
  signal: string | null;
}

function findPlace(tx: Tx, task: Omit<Found, "place">): Place {
  const queue = task.queue.id;
  const held = findHeld(tx, task.seq);
  if (held) return { state: "claimed", held };
  const ended = tx.get<{ state: EndState }>(ENDED, task.seq);
  if (ended) return { state: ended.state };
  const ready = tx.get<{ failures: number }>(READY, queue, task.rank, task.pos);
  if (ready) return { state: "ready", kept: false, failures: ready.failures };
  const scheduled = tx.get<ScheduledRow>(SCHEDULED, queue, task.pos);
  if (scheduled) {
    const { due, failures, signal } = scheduled;
    const waits = { due, failures, holdsGroup: scheduled.holds_group === 1 };
    return signal === null ? { state: "scheduled", ...waits } : { state: "parked", signal, ...waits };
  }
  const kept = tx.get<{ failures: number }>(KEPT, queue, task.rank, task.pos);
  if (kept) return { state: "ready", kept: true, failures: kept.failures };
  if (task.groupKey !== null && tx.get(WAITING, queue, task.groupKey, task.pos)) return { state: "waiting" };
  return { state: "dead" };
}

const CLAIM = `SELECT * FROM claim WHERE task = ?`;

export interface ClaimRow {
  task: number;
  queue: number;
  failures: number;
  special: number;
  fence: number;
  started_at: number;
  lease: number;
  deadline: number;
  cancelled: number;
  session: number | null;
  progress: number | null;
  note: string | null;
  worker: string;
}

function findHeld(tx: Tx, seq: number): Held | undefined {
  const row = tx.get<ClaimRow>(CLAIM, seq);
  return row && heldFrom(tx, row);
}

export function heldFrom(tx: Tx, row: ClaimRow): Held {
  const task = taskBySeq(tx, row.task)!;
  return {
    ...task,
    holdsGroup: task.groupKey !== null,
    failures: row.failures,
    fence: row.fence,
    worker: row.worker,
    session: row.session,
    startedAt: row.started_at,
    cancelled: row.cancelled === 1,
    stepped: (row.special & STEPPED) !== 0,
  };
}

const DELETE_READY = `DELETE FROM ready WHERE queue = ? AND rank = ? AND pos = ?`;
const DELETE_KEPT = `DELETE FROM kept WHERE queue = ? AND rank = ? AND pos = ?`;
const DELETE_SCHEDULED = `DELETE FROM scheduled WHERE queue = ? AND pos = ?`;
const DELETE_WAITING = `DELETE FROM waiting WHERE queue = ? AND group_key = ? AND pos = ?`;
const DELETE_ENDED = `DELETE FROM ended WHERE task = ?`;
const DELETE_DEAD = `DELETE FROM dead WHERE task = ?`;

/** Takes a task out of the state it is in. Its group, if it holds one, is not freed by this. */
export function takeOut(tx: Tx, task: Found): void {
  const queue = task.queue.id;
  switch (task.place.state) {
    case "claimed":
      dropClaim(tx, task);
      return;
    case "ready":
      tx.run(task.place.kept ? DELETE_KEPT : DELETE_READY, queue, task.rank, task.pos);
      break;
    case "scheduled":
    case "parked":
      tx.run(DELETE_SCHEDULED, queue, task.pos);
      break;
    case "waiting":
      tx.run(DELETE_WAITING, queue, task.groupKey, task.pos);
      break;
    case "dead":
      tx.run(DELETE_DEAD, task.seq);
      break;
    case "done":
    case "cancelled":
    case "expired":
      tx.run(DELETE_ENDED, task.seq);
      break;
  }
  tx.count(task.queue, task.place.state, -1);
  if (["ready", "scheduled", "parked", "waiting"].includes(task.place.state))
    unwatchTtl(tx, task.seq, task.expiresAt);
}

const DELETE_TASK = `DELETE FROM task WHERE seq = ?`;
const DELETE_LEDGER = `DELETE FROM attempt WHERE task = ?`;
const DELETE_KEY = `DELETE FROM idempotency WHERE queue = ? AND key = ? AND task = ?`;

/** Gone without a trace: purged, discarded or dropped. Its key is free. (Those past their retention: care.ts.) */
export function remove(tx: Tx, task: Found): void {
  takeOut(tx, task);
  tx.run(DELETE_TASK, task.seq);
  tx.run(DELETE_LEDGER, task.seq);
  tx.run(DELETE_STEPS, task.seq);
  if (task.holdsGroup) freeGroup(tx, task.queue, task.groupKey!);
  if (task.key !== null) tx.run(DELETE_KEY, task.queue.id, task.key, task.seq);
}
