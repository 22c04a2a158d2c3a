import { isChildrenSignal } from "../../core/handler/children-signal.ts";
import { claimLost } from "../../core/errors/errors.ts";
import { fingerprint } from "../../core/errors/fingerprint.ts";
import { countAttempt, type Failure, isFailure } from "../../core/task/attempt-outcome.ts";
import type { ExpiryReason } from "../../core/queue/expired-to.ts";
import { keyExpiresAt } from "../../core/task/idempotency.ts";
import { workersToAvoid } from "../../core/task/retry.ts";
import { type AttemptOutcome, type EndState, isEnd, type TaskError } from "../../core/task/task.ts";
import {
  afterFailure,
  afterReturn,
  isOutlived,
  keepsSteps,
  NEVER,
  stepsAside,
  type Transition,
  type Wait,
} from "../../core/task/transition.ts";
import { NO_VERDICT, refusal, type Verified } from "../../core/handler/verification.ts";
import { correctCost, fill, holders, isGoverned, laneOf, ownerOf } from "./lanes.ts";
import type { Model, ModelTask } from "./model.ts";
import {
  abandon,
  awaitsChildren,
  endChild,
  endParent,
  forgetChildren,
  loseChild,
  loseFamily,
} from "./children.ts";
import { endPart, isRunEnded, losePart } from "./runs.ts";

/** The transitions of a task. All verbs are made of these. */

/** A due task enters the line, or waits behind the head of its group. */
export function enter(model: Model, task: ModelTask): void {
  task.dueAt = null;
  task.waitsFor = null;
  // If groups have limits, a head must join like any other: another start counts against them. So must one of several heads.
  if (task.groupKey === null || (isOnlyHead(model, task) && !isGoverned(model, task.queue))) {
    task.place = task.pos;
    return becomeReady(model, task);
  }
  task.blocksGroup = false;
  task.state = "waiting";
  fillLane(model, task.queue, task.groupKey);
}

function isOnlyHead(model: Model, task: ModelTask): boolean {
  return task.blocksGroup && holders(model, task.queue, task.groupKey!).length === 1;
}

export function fillLane(model: Model, queue: string, key: string): void {
  fill(model, queue, key, (task) => becomeReady(model, task));
}

function becomeReady(model: Model, task: ModelTask): void {
  task.state = "ready";
  task.elsewhere = retryElsewhere(model, task);
  task.owner = task.elsewhere ? null : ownerOf(model, task);
  model.hintReady(task.queue);
}

/** No task of its group starts for `delay`; no task of the queue if it has no group. Tasks in the line wait again. */
export function holdBack(model: Model, { queue, groupKey }: ModelTask, delay: number): void {
  const gate = groupKey === null ? model.queue(queue).gate : laneOf(model, queue, groupKey);
  gate.heldUntil = Math.max(gate.heldUntil, model.now + delay);
  if (groupKey === null) return;
  for (const task of model.tasksOf(queue, "ready")) if (task.groupKey === groupKey) removeFromLine(task);
}

/** Takes a task out of the line: it waits again. */
export function removeFromLine(task: ModelTask): void {
  task.state = "waiting";
  task.blocksGroup = false;
  task.elsewhere = null;
  task.owner = null;
}

export function stepAside(model: Model, task: ModelTask): void {
  if (stepsAside(task.blocksGroup, model.policy(task.queue))) freeGroup(model, task);
}

/** A failed task is offered to other workers first, for a while, if there are any. */
function retryElsewhere(model: Model, task: ModelTask): ModelTask["elsewhere"] {
  const { elsewhere } = model.policy(task.queue);
  if (task.failures === 0 || elsewhere <= 0) return null;
  // Failures before a redrive do not count.
  const failures = task.ledger.filter((row) => isFailure(row.outcome)).slice(-task.failures);
  const serving = [...model.sessions.values()].filter((session) => model.serves(session, task.queue));
  const avoid = workersToAvoid(
    failures.map(({ worker }) => worker),
    serving.map(({ worker }) => worker.id),
  );
  return avoid && { until: model.now + elsewhere, avoid };
}

export function schedule(task: ModelTask, dueAt: number): void {
  task.state = "scheduled";
  task.dueAt = dueAt;
}

/** The claim has ended, so another task of the queue may start. */
export function dropClaim(model: Model, task: ModelTask): void {
  const { spent } = task.claim!;
  if (spent !== null) correctCost(model, task, spent);
  if (model.policy(task.queue).maxConcurrency !== null) model.hintReady(task.queue);
  task.claim = null;
}

/** Ends the claim and writes its row of the ledger. */
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
  countAttempt(model.flow(task.queue), outcome, model.now - claim.startedAt);
}

/** A failed attempt: another one after `delay`, or dead if it was the last. */
export function fail(model: Model, task: ModelTask, outcome: Failure, error: TaskError, delay: number): void {
  const { worker } = task.claim ?? task.pending!;
  const cancelRequested = task.claim?.cancelled ?? false;
  closeAttempt(model, task, outcome, error);
  const attempt = ++task.failures;
  const { expiresAt } = task;
  const facts = { failures: attempt, maxAttempts: model.maxAttempts(task), cancelRequested, expiresAt };
  const next = afterFailure({ ...facts, runEnded: isRunEnded(task) }, { delay }, model.now);
  if (next.to === "dead") return die(model, task, error);
  if (next.to !== "cancelled")
    model.announce({
      type: "task.failed",
      at: model.now,
      queue: task.queue,
      taskId: task.id,
      worker,
      attempt,
      detail: `${error.name}: ${error.message}`,
    });
  move(model, task, next);
}

/** The task returns to its old position, now, after a delay, or when a signal comes. */
export function returnToLine(model: Model, task: ModelTask, wait: Wait): void {
  const { expiresAt } = task;
  move(model, task, afterReturn({ expiresAt, runEnded: isRunEnded(task) }, wait, model.now), wait.signal);
}

/** Carries out a transition that core has decided. */
function move(model: Model, task: ModelTask, next: Transition, signal?: string): void {
  switch (next.to) {
    case "cancelled":
    case "expired":
      return end(model, task, next.to);
    case "line":
      return enter(model, task);
    case "scheduled":
    case "parked":
      task.state = next.to;
      task.waitsFor = signal ?? null;
      task.dueAt = next.dueAt === NEVER ? null : next.dueAt;
      return stepAside(model, task);
  }
}

export function isExpired(model: Model, { expiresAt }: ModelTask): boolean {
  return isOutlived(expiresAt, model.now);
}

export function die(model: Model, task: ModelTask, error: TaskError): void {
  task.error = { ...error, fingerprint: fingerprint(error) };
  end(model, task, "dead", `${error.name}: ${error.message}`);
}

/** The task ends: the next of its group is promoted, and the time of its idempotency key starts. */
export function end(model: Model, task: ModelTask, state: EndState, detail?: string): void {
  if (state === "expired") noteExpired(model, task, "ttl");
  task.state = state;
  task.endedAt = model.now;
  task.dueAt = null;
  task.waitsFor = null;
  task.elsewhere = null;
  task.owner = null;
  if (!keepsSteps(state)) {
    task.steps = [];
    task.feedback = null;
  }
  const key = task.idempotencyKey !== null && model.queue(task.queue).keys.get(task.idempotencyKey);
  if (key && key.id === task.id) {
    key.forgetAt = keyExpiresAt(model.now);
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
  endChild(model, task, state);
  endParent(model, task, state);
  for (const left of endPart(model, task, state)) cancelTask(model, left);
}

/** Cancels this task only; the caller cancels the others of its run. A claimed one ends when its worker has let go. */
export function cancelTask(model: Model, task: ModelTask): void {
  const { id } = task;
  if (task.claim) {
    const { cancelled, session, fence } = task.claim;
    task.claim.cancelled = true;
    abandon(model, id);
    if (!cancelled && session !== null) model.notices.push({ session, kind: "cancel", id, fence });
  } else if (!isEnd(task.state)) {
    if (task.pending) closeAttempt(model, task, "cancelled", null);
    end(model, task, "cancelled");
  }
}

/** Called after a verb, and after each end in a sweep: wakes parents, and cancels abandoned children. */
export function followEnds(model: Model): void {
  const { relieved, abandoned } = model;
  for (;;) {
    if (relieved.length > 0) wakeParent(model, relieved.shift()!);
    else if (abandoned.length > 0) {
      const child = model.tasks.get(abandoned.shift()!);
      if (child) cancelTask(model, child);
    } else return;
  }
}

/** A child has ended. Its parent continues if it waits for its children, and this was the last of them. */
function wakeParent(model: Model, id: string): void {
  const parent = model.tasks.get(id);
  const signal = parent?.waitsFor ?? "";
  if (!parent || !isChildrenSignal(signal) || awaitsChildren(model, id, signal)) return;
  model.announce({
    type: "task.signalled",
    at: model.now,
    queue: parent.queue,
    taskId: id,
    detail: signal,
  });
  returnToLine(model, parent, { delay: 0 });
}

/** A full queue drops its oldest tasks: they expire before their time. */
export function drop(model: Model, task: ModelTask): void {
  end(model, task, "expired");
  const last = model.expired.at(-1);
  if (last?.task === task) last.why = "dropped";
}

function noteExpired(model: Model, task: ModelTask, why: ExpiryReason): void {
  if (model.policy(task.queue).expiredTo !== null) model.expired.push({ task, why });
}

export function freeGroup(model: Model, task: ModelTask): void {
  if (!task.blocksGroup) return;
  task.blocksGroup = false;
  fillLane(model, task.queue, task.groupKey!);
}

/** Deletes a task: purged, discarded, or past its retention. Its key is free, unless the key outlives the task. */
export function remove(model: Model, task: ModelTask, options: { keepKey: boolean }): void {
  model.tasks.delete(task.id);
  freeGroup(model, task);
  if (!options.keepKey) freeKey(model, task);
  missVerdict(model, task);
  loseChild(model, task);
  loseFamily(model, task);
  for (const left of losePart(model, task)) cancelTask(model, left);
  followEnds(model);
}

function freeKey(model: Model, { id, queue, idempotencyKey }: ModelTask): void {
  const { keys } = model.queue(queue);
  if (idempotencyKey !== null && keys.get(idempotencyKey)?.id === id) keys.delete(idempotencyKey);
}

/** The verifier's task ended without a verdict: the result is refused, so that its task is not stuck. */
function missVerdict(model: Model, task: ModelTask): void {
  const judged = findAsked(model, task);
  if (judged) refuse(model, judged, NO_VERDICT, 0);
}

/** The task whose result a verifier's task is about. Not read from the payload, which any producer can write. */
export function findAsked(model: Model, asking: ModelTask): ModelTask | undefined {
  return [...model.tasks.values()].find((task) => task.pending?.asked === asking.id);
}

/** The attempt whose result waits for a verdict. */
export function findJudged(model: Model, { id, fence }: Verified): ModelTask | undefined {
  const task = model.tasks.get(id);
  return task?.pending?.fence === fence ? task : undefined;
}

/**
 * Counts as a failed attempt of the worker that had the result. The next attempt starts over and gets the feedback. It
 * keeps signals: they are not sent again.
 */
export function refuse(
  model: Model,
  task: ModelTask,
  feedback: string,
  delay: number,
  keepSteps = false,
): void {
  if (!keepSteps) {
    task.steps = task.steps.filter(({ kind }) => kind !== "step" && kind !== "child");
    forgetChildren(model, task);
  }
  task.feedback = feedback;
  fail(model, task, "refused", refusal(feedback), delay);
}

/** Checks the fence, before everything that a holder may do. */
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
