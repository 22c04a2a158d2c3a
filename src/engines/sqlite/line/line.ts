import { countAttempt, type Failure } from "../../../core/task/attempt-outcome.ts";
import type { ExpiryReason } from "../../../core/queue/expired-to.ts";
import { fingerprint } from "../../../core/errors/fingerprint.ts";
import { keyExpiresAt } from "../../../core/task/idempotency.ts";
import type { AttemptOutcome, EndState, TaskError, TaskState } from "../../../core/task/task.ts";
import {
  afterFailure,
  afterReturn,
  keepsSteps,
  stepsAside,
  type Transition,
  type Wait,
} from "../../../core/task/transition.ts";
import { isVerificationQueue, NO_VERDICT, refusal } from "../../../core/handler/verification.ts";
import { correctCost } from "../limits/costs.ts";
import { findAsked } from "./held.ts";
import { wait } from "../limits/lanes.ts";
import { enterLane, freeLanes } from "../limits/move-lanes.ts";
import { enterLine } from "./enter-line.ts";
import { endChild, endParent, forgetChildren } from "../flows/children.ts";
import { endPart, isRunEnded } from "../flows/runs.ts";
import { DELETE_STEPS, DELETE_TAKEN, keepStep } from "../flows/steps.ts";
import { HEAD_ONLY, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The transitions of a task between its states: enter the line, fail, die, end, return to the line. The verbs call
 * them.
 */

/** What a transition needs to know of a task. */
export interface TransitionTask {
  seq: number;
  queue: Queue;
  createdAt: number;
  rank: number;
  pos: number;
  groupKey: string | null;
  /** It is the head of its group, or one of several: other tasks wait behind it. */
  blocksGroup: boolean;
  expiresAt: number | null;
  maxAttempts: number | null;
  /** It has an idempotency key. */
  keyed: boolean;
  failures: number;
  /** False: certainly no steps, no run, or no child; undefined: not known. */
  stepped?: boolean;
  ofRun?: boolean;
  isChild?: boolean;
}

/** A task that is claimed. */
export interface Held extends TransitionTask {
  fence: number;
  worker: string;
  session: number | null;
  startedAt: number;
  cancelled: boolean;
  /** The real cost, as the settlement states it. */
  spent?: number;
  /** Its claim has ended, and its result waits for a verdict. */
  isVerifying?: boolean;
}

const INSERT_SCHEDULED = `
  INSERT INTO scheduled (queue, pos, task, due, failures, blocks_group, signal) VALUES (?, ?, ?, ?, ?, ?, ?)`;
const TAKE_LANE = `INSERT INTO lane (queue, group_key) VALUES (?, ?) ON CONFLICT DO NOTHING`;
const FREE_LANE = `DELETE FROM lane WHERE queue = ? AND group_key = ?`;
const NEXT_OF_GROUP = `
  DELETE FROM waiting WHERE (queue, group_key, pos) IN (
    SELECT queue, group_key, pos FROM waiting WHERE queue = ? AND group_key = ? ORDER BY pos LIMIT 1)
  RETURNING pos, task, rank, failures`;
const INSERT_TTL = `INSERT INTO ttl (expires_at, task) VALUES (?, ?)`;
const DELETE_TTL = `DELETE FROM ttl WHERE expires_at = ? AND task = ?`;

/** It enters the line, or waits behind the head of its group. */
export function enter(tx: Tx, task: TransitionTask): "ready" | "waiting" {
  const { queue, groupKey } = task;
  if (groupKey !== null) {
    if (queue.lanes !== HEAD_ONLY) return enterLane(tx, task);
    if (!task.blocksGroup && tx.run(TAKE_LANE, queue.id, groupKey) === 0) {
      wait(tx, task);
      return "waiting";
    }
    task.blocksGroup = true;
  }
  const { rank, pos, seq, failures } = task;
  enterLine(tx, { queue, rank, pos, task: seq, failures });
  return "ready";
}

/** With a `signal` it is parked: the signal may come before the time. */
export function schedule(tx: Tx, task: TransitionTask, due: number, signal?: string): "scheduled" | "parked" {
  const { queue, pos, seq, failures } = task;
  tx.run(INSERT_SCHEDULED, queue.id, pos, seq, due, failures, task.blocksGroup ? 1 : 0, signal ?? null);
  const state = signal === undefined ? "scheduled" : "parked";
  tx.counters.count(queue, state, 1);
  tx.batch.noteDue(due);
  return state;
}

/** Its time-to-live is checked from now on. */
export function watchTtl(tx: Tx, task: TransitionTask): void {
  if (task.expiresAt === null) return;
  tx.run(INSERT_TTL, task.expiresAt, task.seq);
  tx.batch.noteDue(task.expiresAt);
}

export function unwatchTtl(tx: Tx, seq: number, expiresAt: number | null): void {
  if (expiresAt !== null) tx.run(DELETE_TTL, expiresAt, seq);
}

const DELETE_CLAIM = `DELETE FROM claim WHERE task = ?`;
export const INSERT_ATTEMPT = `
  INSERT INTO attempt (task, fence, attempt, worker, started_at, ended_at, outcome, name, message, stack, fingerprint)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

/** The claim ends, which frees a slot of maxConcurrency. */
export function dropClaim(tx: Tx, task: Held): void {
  forgetClaim(tx, task);
  if (task.spent !== undefined) correctCost(tx, task, task.spent);
  if (task.queue.policy.maxConcurrency !== null) tx.batch.hintReady(task.queue);
}

/** With the task itself. */
export function forgetClaim(tx: Tx, task: TransitionTask): void {
  tx.run(DELETE_CLAIM, task.seq);
  tx.counters.count(task.queue, "claimed", -1);
}

const DELETE_VERIFYING = `DELETE FROM verifying WHERE task = ?`;

export function dropVerifying(tx: Tx, task: TransitionTask): void {
  tx.run(DELETE_VERIFYING, task.seq);
  tx.counters.count(task.queue, "verifying", -1);
}

/** Writes the row of the ledger for the claim that ends, and removes the claim. `endDone` does it for a success. */
export function closeAttempt(
  tx: Tx,
  task: Held,
  outcome: Exclude<AttemptOutcome, "done">,
  error: TaskError | null,
): void {
  if (task.isVerifying) dropVerifying(tx, task);
  else dropClaim(tx, task);
  tx.run(
    INSERT_ATTEMPT,
    task.seq,
    task.fence,
    task.failures + 1,
    task.worker,
    task.startedAt,
    tx.now,
    outcome,
    error && error.name,
    error && error.message,
    error && error.stack,
    error && fingerprint(error),
  );
  countAttempt(tx.counters.flow(task.queue), outcome, tx.now - task.startedAt);
}

/** A failed attempt: another one after `delay`, or dead if it was the last. */
export function fail(tx: Tx, task: Held, outcome: Failure, error: TaskError, delay: number): TaskState {
  closeAttempt(tx, task, outcome, error);
  const attempt = ++task.failures;
  const { expiresAt, cancelled: cancelRequested } = task;
  const maxAttempts = task.maxAttempts ?? task.queue.policy.maxAttempts;
  const facts = { failures: attempt, maxAttempts, cancelRequested, expiresAt };
  const next = afterFailure({ ...facts, runEnded: isRunEnded(tx, task) }, { delay }, tx.now);
  if (next.to === "dead") return die(tx, task, error);
  if (next.to !== "cancelled") {
    const detail = `${error.name}: ${error.message}`;
    announceTask(tx, "task.failed", task, { worker: task.worker, attempt, detail });
  }
  return move(tx, task, next);
}

/** Back into the line at its old position, now or later, or when a signal comes. */
export function returnToLine(tx: Tx, task: TransitionTask, wait: Wait): TaskState {
  const facts = { expiresAt: task.expiresAt, runEnded: isRunEnded(tx, task) };
  return move(tx, task, afterReturn(facts, wait, tx.now), wait.signal);
}

/** Carries out a transition that core has decided. */
function move(tx: Tx, task: TransitionTask, next: Transition, signal?: string): TaskState {
  if (next.to === "cancelled" || next.to === "expired") return end(tx, task, next.to);
  watchTtl(tx, task);
  if (next.to === "line") return enter(tx, task);
  const frees = willStepAside(task);
  if (frees) task.blocksGroup = false;
  const state = schedule(tx, task, next.dueAt, signal);
  if (frees) freeGroup(tx, task.queue, task.groupKey!);
  return state;
}

export function willStepAside({ blocksGroup, queue }: TransitionTask): boolean {
  return stepsAside(blocksGroup, queue.policy);
}

const INSERT_DEAD = `
  INSERT INTO dead (task, queue, died_at, fence, worker, fingerprint) VALUES (?, ?, ?, ?, ?, ?)`;

/** After its last attempt was closed. */
export function die(tx: Tx, task: Held, error: TaskError): "dead" {
  tx.run(INSERT_DEAD, task.seq, task.queue.id, tx.now, task.fence, task.worker, fingerprint(error));
  reachEnd(tx, task, "dead", `${error.name}: ${error.message}`);
  return "dead";
}

const INSERT_ENDED = `INSERT INTO ended (task, queue, state, ended_at) VALUES (?, ?, ?, ?)`;

export function end<S extends "cancelled" | "expired">(
  tx: Tx,
  task: TransitionTask,
  state: S,
  why: ExpiryReason = "ttl",
): S {
  const { seq, queue } = task;
  if (state === "expired" && queue.policy.expiredTo !== null) tx.batch.expired.push({ seq, queue, why });
  tx.run(INSERT_ENDED, task.seq, task.queue.id, state, tx.now);
  reachEnd(tx, task, state);
  return state;
}

const INSERT_DONE = `
  INSERT INTO ended (task, queue, state, ended_at, started_at, attempt, fence, worker, result)
  VALUES (?, ?, 'done', ?, ?, ?, ?, ?, ?)`;

/** A success. Its attempt is part of the row in `ended`. */
export function endDone(tx: Tx, task: Held, result: string | Uint8Array | null): "done" {
  const attempt = task.failures + 1;
  const { now } = tx;
  tx.run(INSERT_DONE, task.seq, task.queue.id, now, task.startedAt, attempt, task.fence, task.worker, result);
  countAttempt(tx.counters.flow(task.queue), "done", now - task.startedAt);
  reachEnd(tx, task, "done");
  return "done";
}

const END_KEY = `
  UPDATE idempotency SET forget_at = ?, state = ?
  WHERE queue = ? AND key = (SELECT idempotency_key FROM task WHERE seq = ?) AND task = ?`;

/** What follows every end: counters, steps, key, events, group, relatives, run. */
function reachEnd(tx: Tx, task: TransitionTask, state: EndState, detail?: string): void {
  tx.counters.count(task.queue, state, 1);
  if (!keepsSteps(state) && task.stepped !== false) tx.run(DELETE_STEPS, task.seq);
  if (task.keyed) tx.run(END_KEY, keyExpiresAt(tx.now), state, task.queue.id, task.seq, task.seq);
  tx.batch.hint.ended = true;
  if (tx.listeners > 0) {
    announceTask(tx, `task.${state}`, task, {
      ...lastAttempt(tx, task.seq),
      ...(detail !== undefined && { detail }),
    });
  }
  if (task.blocksGroup) freeGroup(tx, task.queue, task.groupKey!);
  if (isVerificationQueue(task.queue.name)) missVerdict(tx, task.seq);
  endChild(tx, task, state);
  endParent(tx, task, state);
  endPart(tx, task, state);
}

const LAST_ATTEMPT = `
  SELECT worker, attempt FROM ended WHERE task = ? AND attempt IS NOT NULL
  UNION ALL
  SELECT * FROM (SELECT worker, attempt FROM attempt WHERE task = ? ORDER BY fence DESC LIMIT 1)
  LIMIT 1`;

function lastAttempt(tx: Tx, seq: number): { worker: string; attempt: number } | undefined {
  return tx.get(LAST_ATTEMPT, seq, seq);
}

export function freeGroup(tx: Tx, queue: Queue, groupKey: string): void {
  if (queue.lanes !== HEAD_ONLY) return freeLanes(tx, [{ queue, key: groupKey }]);
  const next = tx.take<{ pos: number; task: number; rank: number; failures: number }>(
    NEXT_OF_GROUP,
    queue.id,
    groupKey,
  );
  if (!next) {
    tx.run(FREE_LANE, queue.id, groupKey);
    return;
  }
  tx.counters.count(queue, "waiting", -1);
  enterLine(tx, { queue, ...next });
}

/** An event about a task. */
export function announceTask(
  tx: Tx,
  type: Extract<Parameters<Tx["announce"]>[0], { taskId: string }>["type"],
  task: TransitionTask,
  more: { worker?: string; attempt?: number; detail?: string },
): void {
  if (tx.listeners === 0) return;
  tx.announce({ type, at: tx.now, queue: task.queue.name, taskId: tx.id(task.createdAt, task.seq), ...more });
}

/**
 * No verdict will come for the results that these tasks asked about: that counts as a refusal, so that nothing is
 * stuck.
 */
export function missVerdict(tx: Tx, asking: number): void {
  const judged = findAsked(tx, asking);
  if (judged) refuse(tx, judged, NO_VERDICT, 0);
}

/**
 * Counts as a failed attempt of the worker that had the result. The next attempt starts without steps, unless
 * `keepSteps` is set, and gets the feedback. Signals stay, because they are not sent again.
 */
export function refuse(tx: Tx, task: Held, feedback: string, delay: number, keepSteps = false): void {
  if (!keepSteps) {
    tx.run(DELETE_TAKEN, task.seq);
    forgetChildren(tx, task.seq);
  }
  keepStep(tx, task.seq, "feedback", "", feedback);
  fail(tx, task, "refused", refusal(feedback), delay);
}

/** Ends a task whose cancel was requested, whatever the settlement says. */
export function endCancelled(tx: Tx, task: Held): TaskState {
  closeAttempt(tx, task, "cancelled", null);
  return end(tx, task, "cancelled");
}
