import type { DibsEvent } from "../../../core/event/events.ts";
import { countAttempt, type Failure } from "../../../core/task/attempt-outcome.ts";
import type { ExpiryReason } from "../../../core/queue/expired-to.ts";
import { fingerprint } from "../../../core/errors/fingerprint.ts";
import type { AttemptOutcome, Body, EndState, TaskError, TaskState } from "../../../core/task/task.ts";
import {
  afterFailure,
  afterReturn,
  keepsSteps,
  stepsAside,
  type Transition,
  type Wait,
} from "../../../core/task/transition.ts";
import { isVerificationQueue, NO_VERDICT, refusal } from "../../../core/handler/verification.ts";
import { enterLine } from "./enter-line.ts";
import { freeGroups } from "./free-groups.ts";
import { endKey } from "./keys.ts";
import { correctCost } from "../limits/gates.ts";
import { findAsked } from "./held.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { enterLane, leaveLane } from "../limits/lane-line.ts";
import { takeLanes, wait } from "../limits/lanes.ts";
import { isRowBy, rowsBy } from "../statements/look-up.ts";
import { endChild, endParent, forgetChildren } from "../flows/children.ts";
import { endPart, isRunEnded } from "../flows/runs.ts";
import { DELETE_STEPS, DELETE_TAKEN, keepStep } from "../flows/steps.ts";
import { toColumns, toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Transitions between the states; all verbs use these functions. No other transaction can change the task meanwhile:
 * its row was deleted from the state that it leaves, or is locked there.
 */

/** What a transition needs to know of a task. */
export interface TransitionTask {
  seq: number;
  queue: Queue;
  createdAt: number;
  rank: number;
  pos: number;
  groupKey: string | null;
  /** It is the head of its group: other tasks wait behind it. */
  blocksGroup: boolean;
  expiresAt: number | null;
  maxAttempts: number | null;
  /** Units that it takes from rate limits; null: one. */
  cost: number | null;
  /** Its idempotency key. */
  key: string | null;
  failures: number;
  /** It has stored steps or signals, is part of a run, or a child. False: certainly none of them; undefined: not known. */
  stepped?: boolean;
}

/** A task that is claimed. */
export interface Held extends TransitionTask {
  fence: number;
  worker: string;
  session: number | null;
  startedAt: number;
  cancelled: boolean;
  /** Its claim has ended, and its result waits for a verdict. */
  isVerifying?: boolean;
  /** The real cost, as the settlement states it. */
  spent?: number | undefined;
}

/** Its success writes more than its own rows: it has a group, a key or steps, is part of a run, or a child. */
export function isSpecial(task: Pick<TransitionTask, "groupKey" | "key" | "stepped">): boolean {
  return task.groupKey !== null || task.key !== null || task.stepped === true;
}

const INSERT_SCHEDULED = `
  INSERT INTO dibs.scheduled (queue, pos, task, due, failures, blocks_group, signal)
  VALUES ($1, $2, $3, $4, $5, $6, $7)`;
const INSERT_TTL = `INSERT INTO dibs.ttl (expires_at, task) VALUES ($1, $2) ON CONFLICT DO NOTHING`;
const DELETE_TTL = `DELETE FROM dibs.ttl WHERE expires_at = $1 AND task = $2`;

/** Makes it the head of its group if the group has none. In a queue without limits. */
async function takeLane(tx: Tx, task: TransitionTask): Promise<boolean> {
  const { taken } = await takeLanes(tx, [{ queue: task.queue.id, groupKey: task.groupKey! }]);
  task.blocksGroup = taken.length > 0;
  return task.blocksGroup;
}

/** It enters the line, or waits behind the head of its group. */
export async function enter(tx: Tx, task: TransitionTask): Promise<"ready" | "waiting"> {
  if (task.groupKey !== null && task.queue.limited) return enterLane(tx, task);
  if (task.groupKey !== null && !task.blocksGroup) {
    if (!(await takeLane(tx, task))) return wait(tx, task);
  }
  await enterLine(tx, [{ ...task, special: isSpecial(task) }]);
  return "ready";
}

/** With a `signal` it is parked: the signal may come before the time. */
export function schedule(tx: Tx, task: TransitionTask, due: number, signal?: string): "scheduled" | "parked" {
  const { queue, pos, seq, failures, blocksGroup } = task;
  const name = signal === undefined ? null : toText(signal);
  tx.send(INSERT_SCHEDULED, queue.id, pos, seq, due, failures, blocksGroup, name);
  tx.floors.lowerTime("scheduled", due);
  const state = signal === undefined ? "scheduled" : "parked";
  tx.counters.count(queue, state, 1);
  tx.batch.noteDue(due);
  return state;
}

/** Its time-to-live is checked from now on. */
export function watchTtl(tx: Tx, task: TransitionTask): void {
  if (task.expiresAt === null) return;
  tx.send(INSERT_TTL, task.expiresAt, task.seq);
  tx.floors.lowerTime("ttl", task.expiresAt);
  tx.batch.noteDue(task.expiresAt);
}

export function unwatchTtl(tx: Tx, seq: number, expiresAt: number | null): void {
  if (expiresAt !== null) tx.send(DELETE_TTL, expiresAt, seq);
}

const DELETE_CLAIM = `DELETE FROM dibs.claim WHERE task = $1`;
const INSERT_ATTEMPT = `
  INSERT INTO dibs.attempt (task, fence, attempt, worker, started_at, ended_at, outcome, name, message, stack, fingerprint)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`;

/** Its row is locked. */
function removeClaim(tx: Tx, task: TransitionTask): void {
  tx.send(DELETE_CLAIM, task.seq);
  tx.counters.count(task.queue, "claimed", -1);
}

/** The claim ends, which frees a slot of maxConcurrency. */
export async function dropClaim(tx: Tx, task: Held): Promise<void> {
  const { queue, groupKey, spent, startedAt } = task;
  if (spent !== undefined) await correctCost(tx, queue, groupKey, { cost: task.cost ?? 1, spent, startedAt });
  if (queue.policy.maxConcurrency !== null) tx.batch.hintReady(queue);
  removeClaim(tx, task);
}

const DELETE_VERIFYING = `DELETE FROM dibs.verifying WHERE ${isRowBy("verifying", { task: "$1::int8" })}`;
const DELETE_STEPPED_ASIDE = `DELETE FROM dibs.stepped_aside WHERE task = $1`;

/** Its row is locked. */
export function dropVerifying(tx: Tx, task: TransitionTask): void {
  tx.send(DELETE_VERIFYING, task.seq);
  if (task.groupKey !== null && !task.blocksGroup) tx.send(DELETE_STEPPED_ASIDE, task.seq);
  tx.counters.count(task.queue, "verifying", -1);
}

/** Writes the row of the ledger for the claim that ends, and removes the claim. `endDone` does it for a success. */
export async function closeAttempt(
  tx: Tx,
  task: Held,
  outcome: Exclude<AttemptOutcome, "done">,
  error: TaskError | null,
): Promise<void> {
  if (task.isVerifying) dropVerifying(tx, task);
  else await dropClaim(tx, task);
  tx.send(
    INSERT_ATTEMPT,
    task.seq,
    task.fence,
    task.failures + 1,
    task.worker,
    task.startedAt,
    tx.now,
    outcome,
    error && toText(error.name),
    error && toText(error.message),
    error && error.stack !== null ? toText(error.stack) : null,
    error && toText(fingerprint(error)),
  );
  countAttempt(tx.counters.flow(task.queue), outcome, tx.now - task.startedAt);
}

/** A failed attempt: another one after `delay`, or dead if it was the last. */
export async function fail(
  tx: Tx,
  task: Held,
  outcome: Failure,
  error: TaskError,
  delay: number,
): Promise<TaskState> {
  await closeAttempt(tx, task, outcome, error);
  const attempt = ++task.failures;
  const { expiresAt, cancelled: cancelRequested } = task;
  const maxAttempts = task.maxAttempts ?? task.queue.policy.maxAttempts;
  const facts = { failures: attempt, maxAttempts, cancelRequested, expiresAt };
  const next = afterFailure({ ...facts, runEnded: await isRunEnded(tx, task) }, { delay }, tx.now);
  if (next.to === "dead") return die(tx, task, error);
  if (next.to !== "cancelled") {
    const detail = `${error.name}: ${error.message}`;
    announceTask(tx, "task.failed", task, { worker: task.worker, attempt, detail });
  }
  return move(tx, task, next);
}

/** Back into the line at its old position, now or later, or when a signal comes. */
export async function returnToLine(tx: Tx, task: TransitionTask, wait: Wait): Promise<TaskState> {
  const facts = { expiresAt: task.expiresAt, runEnded: await isRunEnded(tx, task) };
  return move(tx, task, afterReturn(facts, wait, tx.now), wait.signal);
}

/** Carries out a transition that core has decided. */
async function move(tx: Tx, task: TransitionTask, next: Transition, signal?: string): Promise<TaskState> {
  if (next.to === "cancelled" || next.to === "expired") return end(tx, task, next.to);
  watchTtl(tx, task);
  if (next.to === "line") return enter(tx, task);
  const frees = willStepAside(task);
  if (frees) task.blocksGroup = false;
  const state = schedule(tx, task, next.dueAt, signal);
  if (frees) await freeGroup(tx, task.queue, task.groupKey!);
  return state;
}

export function willStepAside({ blocksGroup, queue }: TransitionTask): boolean {
  return stepsAside(blocksGroup, queue.policy);
}

const INSERT_DEAD = `
  INSERT INTO dibs.dead (task, queue, died_at, fence, worker, fingerprint) VALUES ($1, $2, $3, $4, $5, $6)`;

/** After its last attempt was closed. */
export async function die(tx: Tx, task: Held, error: TaskError): Promise<"dead"> {
  const kind = toText(fingerprint(error));
  tx.send(INSERT_DEAD, task.seq, task.queue.id, tx.now, task.fence, task.worker, kind);
  await reachEnd(tx, task, "dead", `${error.name}: ${error.message}`);
  return "dead";
}

const INSERT_ENDED = `INSERT INTO dibs.ended (task, queue, state, ended_at) VALUES ($1, $2, $3, $4)`;

export async function end<S extends "cancelled" | "expired">(
  tx: Tx,
  task: TransitionTask,
  state: S,
  why: ExpiryReason = "ttl",
): Promise<S> {
  const { seq, queue } = task;
  if (state === "expired" && queue.policy.expiredTo !== null) tx.batch.expired.push({ seq, queue, why });
  tx.send(INSERT_ENDED, task.seq, task.queue.id, state, tx.now);
  await reachEnd(tx, task, state);
  return state;
}

const INSERT_DONE = `
  INSERT INTO dibs.ended (task, queue, state, ended_at, started_at, attempt, fence, worker, result, result_bytes)
  VALUES ($1, $2, 'done', $3, $4, $5, $6, $7, $8, $9)`;

/** A success. Its attempt is part of the row in `ended`. */
export async function endDone(tx: Tx, task: Held, result: Body | null): Promise<"done"> {
  const { seq, queue, startedAt, fence, worker } = task;
  tx.send(
    INSERT_DONE,
    seq,
    queue.id,
    tx.now,
    startedAt,
    task.failures + 1,
    fence,
    worker,
    ...toColumns(result),
  );
  countAttempt(tx.counters.flow(queue), "done", tx.now - startedAt);
  await reachEnd(tx, task, "done");
  return "done";
}

/** What follows every end: counters, steps, key, events, group, relatives, run. */
async function reachEnd(tx: Tx, task: TransitionTask, state: EndState, detail?: string): Promise<void> {
  tx.counters.count(task.queue, state, 1);
  if (!keepsSteps(state) && task.stepped !== false) tx.send(DELETE_STEPS, task.seq);
  if (task.key !== null) endKey(tx, { queue: task.queue.id, key: task.key, task: task.seq }, state);
  tx.batch.hint.ended = true;
  if (tx.events.listeners > 0) {
    announceTask(tx, `task.${state}`, task, {
      ...(await lastAttempt(tx, task.seq)),
      ...(detail !== undefined && { detail }),
    });
  }
  if (task.blocksGroup) await freeGroup(tx, task.queue, task.groupKey!);
  if (isVerificationQueue(task.queue.name)) await missVerdicts(tx, [task.seq]);
  await endChild(tx, task, state);
  await endParent(tx, task, state);
  await endPart(tx, task, state);
}

const LAST_ATTEMPT = `
  SELECT worker, attempt FROM ${rowsBy("ended", { task: "$1::int8" })} AS ended WHERE attempt IS NOT NULL
  UNION ALL
  SELECT * FROM (SELECT worker, attempt FROM dibs.attempt WHERE task = $1 ORDER BY fence DESC LIMIT 1) AS last
  LIMIT 1`;

async function lastAttempt(tx: Tx, seq: number): Promise<{ worker: string; attempt: number } | undefined> {
  return tx.get(LAST_ATTEMPT, seq);
}

/** The head of the group is gone. */
export async function freeGroup(tx: Tx, queue: Queue, groupKey: string): Promise<void> {
  if (queue.limited) await leaveLane(tx, queue, groupKey);
  else await freeGroups(tx, [{ queue: queue.id, groupKey }]);
}

/** An event about a task. */
export function announceTask(
  tx: Tx,
  type: Extract<DibsEvent, { taskId: string }>["type"],
  task: TransitionTask,
  more: { worker?: string; attempt?: number; detail?: string },
): void {
  if (tx.events.listeners === 0) return;
  tx.events.announce({
    type,
    at: tx.now,
    queue: task.queue.name,
    taskId: tx.id(task.createdAt, task.seq),
    ...more,
  });
}

/**
 * No verdict will come for the results that these tasks asked about: that counts as a refusal, so that nothing is
 * stuck.
 */
export async function missVerdicts(tx: Tx, seqs: readonly number[]): Promise<void> {
  for (const judged of await findAsked(tx, seqs)) await refuse(tx, judged, NO_VERDICT, 0);
}

/**
 * Counts as a failed attempt of the worker that had the result. The next attempt starts without steps, unless
 * `keepSteps` is set, and gets the feedback. Signals stay, because they are not sent again.
 */
export async function refuse(
  tx: Tx,
  task: Held,
  feedback: string,
  delay: number,
  keepSteps = false,
): Promise<void> {
  if (!keepSteps) {
    tx.send(DELETE_TAKEN, task.seq);
    await forgetChildren(tx, task.seq);
  }
  keepStep(tx, task.seq, "feedback", "", feedback);
  task.stepped = true;
  await fail(tx, task, "refused", refusal(feedback), delay);
}

/** Ends a task whose cancel was requested, whatever the settlement says. */
export async function endCancelled(tx: Tx, task: Held): Promise<TaskState> {
  await closeAttempt(tx, task, "cancelled", null);
  return end(tx, task, "cancelled");
}
