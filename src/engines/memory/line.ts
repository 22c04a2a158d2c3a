import { claimLost } from "../../core/errors.ts";
import { fingerprint } from "../../core/fingerprint.ts";
import { isExhausted } from "../../core/retry.ts";
import type { AttemptOutcome, EndState, TaskError } from "../../core/task.ts";
import { NO_VERDICT, refusal, type Verified } from "../../core/verification.ts";
import { BOUNDS } from "../../engine/engine.ts";
import { correctCost, fill, holders, isGoverned, laneOf, ownerOf } from "./lanes.ts";
import type { Model, ModelTask } from "./model.ts";
import { endPart, isBeingCancelled, losePart } from "./runs.ts";

/** How a task moves between the states. Each verb is written in these words. */

/** Joins the line, or its group's: a due task, new or redriven. */
export function enter(model: Model, task: ModelTask): void {
  task.dueAt = null;
  task.waitsFor = null;
  // Where its group is more than an order, its head too has to ask again: another start counts. So has one of several heads.
  if (task.groupKey === null || (isOnlyHead(model, task) && !isGoverned(model, task.queue))) {
    task.place = task.pos;
    return becomeReady(model, task);
  }
  task.holdsGroup = false;
  task.state = "waiting";
  fillLane(model, task.queue, task.groupKey);
}

function isOnlyHead(model: Model, task: ModelTask): boolean {
  return task.holdsGroup && holders(model, task.queue, task.groupKey!).length === 1;
}

export function fillLane(model: Model, queue: string, key: string): void {
  fill(model, queue, key, (task) => becomeReady(model, task));
}

function becomeReady(model: Model, task: ModelTask): void {
  task.state = "ready";
  task.elsewhere = keptFor(model, task);
  task.owner = task.elsewhere ? null : ownerOf(model, task);
  model.hintReady(task.queue);
}

/** For `delay` none of its group starts, and none that stands in line either; of its whole queue, where it has no group. */
export function holdBack(model: Model, { queue, groupKey }: ModelTask, delay: number): void {
  const gate = groupKey === null ? model.queue(queue).gate : laneOf(model, queue, groupKey);
  gate.heldUntil = Math.max(gate.heldUntil, model.now + delay);
  if (groupKey === null) return;
  for (const task of model.tasksOf(queue, "ready")) if (task.groupKey === groupKey) removeFromLine(task);
}

/** Out of the line again: it waits for its turn. */
export function removeFromLine(task: ModelTask): void {
  task.state = "waiting";
  task.holdsGroup = false;
  task.elsewhere = null;
  task.owner = null;
}

/** While it waits for something, others of its group may go on; not where they run in order. */
export function stepAside(model: Model, task: ModelTask): void {
  if (model.policy(task.queue).groups.concurrency > 1) freeGroup(model, task);
}

/** A failed task is kept for workers that have not failed it, where there is such a worker. */
function keptFor(model: Model, task: ModelTask): ModelTask["elsewhere"] {
  if (task.failures === 0) return null;
  const avoid = failedBy(task);
  const { elsewhere } = model.policy(task.queue);
  const other = [...model.sessions.values()].some(
    (session) => model.serves(session, task.queue) && !avoid.includes(session.worker.id),
  );
  return other && elsewhere > 0 ? { until: model.now + elsewhere, avoid } : null;
}

/** The workers of the failures that count: those since the task was added or redriven. */
function failedBy(task: ModelTask): string[] {
  const failures = task.ledger.filter((row) => FAILURES.has(row.outcome));
  return [...new Set(failures.slice(-task.failures).map((row) => row.worker))];
}

const FAILURES: ReadonlySet<AttemptOutcome> = new Set(["failed", "timeout", "lost", "refused"]);

export function schedule(task: ModelTask, dueAt: number): void {
  task.state = "scheduled";
  task.dueAt = dueAt;
}

/** Nobody works at it any more: another of its queue may be. */
export function dropClaim(model: Model, task: ModelTask): void {
  const { spent } = task.claim!;
  if (spent !== null) correctCost(model, task, spent);
  if (model.policy(task.queue).maxConcurrency !== null) model.hintReady(task.queue);
  task.claim = null;
}

/** Writes the ledger's row for the claim that ends, and takes the claim off. */
export function closeAttempt(
  model: Model,
  task: ModelTask,
  outcome: AttemptOutcome,
  error: TaskError | null,
): void {
  const claim = task.claim ?? task.pending!;
  if (task.claim) dropClaim(model, task);
  task.pending = null;
  task.ledger.push({
    attempt: task.failures + 1,
    fence: claim.fence,
    worker: claim.worker,
    startedAt: claim.startedAt,
    endedAt: model.now,
    outcome,
    error: error && { ...error, fingerprint: fingerprint(error) },
  });
  const flow = model.flow(task.queue);
  if (outcome === "done") flow.done++;
  if (FAILURES.has(outcome) || outcome === "rejected") flow.failed++;
  if (!["released", "limited", "parked", "cancelled"].includes(outcome))
    flow.serviceMs += model.now - claim.startedAt;
}

/** A failed attempt: another one after `delay`, or dead when it was the last. */
export function fail(
  model: Model,
  task: ModelTask,
  outcome: "failed" | "timeout" | "lost" | "refused",
  error: TaskError,
  delay: number,
): void {
  const { worker } = task.claim ?? task.pending!;
  const cancelled = (task.claim?.cancelled ?? false) || isBeingCancelled(task);
  closeAttempt(model, task, outcome, error);
  const attempt = ++task.failures;
  if (cancelled) return end(model, task, "cancelled");
  if (isExhausted(task.failures, model.maxAttempts(task))) return die(model, task, error);
  model.announce({
    type: "task.failed",
    at: model.now,
    queue: task.queue,
    taskId: task.id,
    worker,
    attempt,
    detail: `${error.name}: ${error.message}`,
  });
  returnToLine(model, task, delay);
}

/** Back in line at its old place, now or later; its group waits for it. */
export function returnToLine(model: Model, task: ModelTask, delay: number): void {
  if (isBeingCancelled(task)) return end(model, task, "cancelled");
  if (isOutlived(model, task)) return end(model, task, "expired");
  if (delay <= 0) return enter(model, task);
  schedule(task, model.now + delay);
  stepAside(model, task);
}

export function isOutlived(model: Model, task: ModelTask): boolean {
  return task.expiresAt !== null && task.expiresAt <= model.now;
}

export function die(model: Model, task: ModelTask, error: TaskError): void {
  task.error = { ...error, fingerprint: fingerprint(error) };
  end(model, task, "dead", `${error.name}: ${error.message}`);
}

/** Reaches an end: the group's next task takes its turn, and the idempotency window starts. */
export function end(model: Model, task: ModelTask, state: EndState, detail?: string): void {
  task.state = state;
  task.endedAt = model.now;
  task.dueAt = null;
  task.waitsFor = null;
  task.elsewhere = null;
  task.owner = null;
  // What steps are for is to go on from there: the dead may.
  if (state !== "dead") {
    task.steps = [];
    task.feedback = null;
  }
  const key = task.idempotencyKey !== null && model.queue(task.queue).keys.get(task.idempotencyKey);
  if (key && key.id === task.id) {
    key.forgetAt = model.now + BOUNDS.keyAfterEnd;
    key.state = state;
  }
  model.hint.ended = true;
  const last = task.ledger.at(-1);
  model.announce({
    type: `task.${state}`,
    at: model.now,
    queue: task.queue,
    taskId: task.id,
    ...(last && { worker: last.worker, attempt: last.attempt }),
    ...(detail !== undefined && { detail }),
  });
  freeGroup(model, task);
  missVerdict(model, task);
  endPart(model, task, state);
}

function freeGroup(model: Model, task: ModelTask): void {
  if (!task.holdsGroup) return;
  task.holdsGroup = false;
  fillLane(model, task.queue, task.groupKey!);
}

/** Gone without a trace: purged, discarded, or past its retention. Its key is free, unless it outlives the row. */
export function remove(model: Model, task: ModelTask, options: { keepKey: boolean }): void {
  model.tasks.delete(task.id);
  freeGroup(model, task);
  if (!options.keepKey) freeKey(model, task);
  missVerdict(model, task);
  losePart(model, task);
}

function freeKey(model: Model, { id, queue, idempotencyKey }: ModelTask): void {
  const { keys } = model.queue(queue);
  if (idempotencyKey !== null && keys.get(idempotencyKey)?.id === id) keys.delete(idempotencyKey);
}

/** Nothing is ever stuck: a result that nobody will judge has failed. */
function missVerdict(model: Model, task: ModelTask): void {
  const judged = findAsked(model, task);
  if (judged) refuse(model, judged, NO_VERDICT, 0);
}

/** The task on which this one asks for a verdict; never by its payload, which anybody could have written. */
export function findAsked(model: Model, asking: ModelTask): ModelTask | undefined {
  return [...model.tasks.values()].find((task) => task.pending?.asked === asking.id);
}

/** The attempt whose result waits for a verdict. */
export function findJudged(model: Model, { id, fence }: Verified): ModelTask | undefined {
  const task = model.tasks.get(id);
  return task?.pending?.fence === fence ? task : undefined;
}

/**
 * A failed attempt of the worker whose result it is; the next one starts over, and knows why. What came from outside stays:
 * nobody will say it again.
 */
export function refuse(model: Model, task: ModelTask, feedback: string, delay: number): void {
  task.steps = task.steps.filter(({ kind }) => kind !== "step");
  task.feedback = feedback;
  fail(model, task, "refused", refusal(feedback), delay);
}

/** The guard in front of everything a holder may do. */
export function heldTask(model: Model, id: string, fence: number): ModelTask {
  const task = model.tasks.get(id);
  if (task?.claim?.fence !== fence) throw claimLost(id, fence);
  return task;
}

/** Whatever was said of it. */
export function endCancelled(model: Model, task: ModelTask): void {
  closeAttempt(model, task, "cancelled", null);
  end(model, task, "cancelled");
}
