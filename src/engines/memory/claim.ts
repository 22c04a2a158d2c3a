import { DibsError } from "../../core/errors.ts";
import type { ClaimedTask } from "../../core/task.ts";
import { BOUNDS, type ClaimOutcome, type ClaimRequest } from "../../engine/engine.ts";
import { end, isOutlived } from "./line.ts";
import type { Model, ModelSession, ModelTask } from "./model.ts";
import { placeOf } from "./runs.ts";
import { sweep } from "./sweep.ts";

export function claim(model: Model, request: ClaimRequest): ClaimOutcome {
  const session = request.session === undefined ? null : liveSession(model, request.session);
  sweep(model);
  const outcome: ClaimOutcome = { tasks: [], policies: {}, passed: false, more: false };
  if (request.share !== undefined)
    for (const queue of request.queues) take(model, request, session, queue, request.share, outcome);
  for (const queue of request.queues) take(model, request, session, queue, request.max, outcome);
  // A sign of life: a queue's lease may be shorter than the time since the last beat, and counts from here.
  // Only where there was something to take, so that an idle worker that asks again and again writes nothing.
  if (session && outcome.tasks.length > 0) session.beatAt = model.awake;
  return outcome;
}

/** One past its lease is refused even before a sweep has found it: its new claims would hang on nothing. */
function liveSession(model: Model, id: number): ModelSession {
  const session = model.sessions.get(id);
  if (!session || session.beatAt + session.lease <= model.awake) throw sessionGone(id);
  return session;
}

export function sessionGone(session: number): DibsError {
  return new DibsError(
    "CLAIM_LOST",
    `Session ${session} has ended: it gave no sign of life for a whole lease, and what it held went to others. Join again.`,
  );
}

/** Up to `count` tasks from one queue, in its order. */
function take(
  model: Model,
  request: ClaimRequest,
  session: ModelSession | null,
  queue: string,
  count: number,
  outcome: ClaimOutcome,
): void {
  const room = Math.min(count, request.max - outcome.tasks.length);
  if (room <= 0 || !model.queues.has(queue) || model.queue(queue).paused) return;
  const line = model.tasksOf(queue, "ready").sort((a, b) => b.priority - a.priority || a.pos - b.pos);
  const kept = line.filter((task) => task.elsewhere).slice(0, BOUNDS.retryLook);
  const allowed = kept.filter((task) => !task.elsewhere!.avoid.includes(request.worker));
  outcome.passed ||= allowed.length < kept.length;
  const open = line.filter((task) => !task.elsewhere || allowed.includes(task));
  const taken = open.slice(0, room);
  // All are held before one of them ends: with a run the others would be cancelled.
  for (const task of taken) if (!isOutlived(model, task)) hold(model, request, session, task);
  for (const task of taken) {
    if (!task.claim) {
      end(model, task, "expired");
      outcome.more = true;
    } else {
      outcome.tasks.push(handOver(model, task));
      outcome.policies[queue] = model.policy(queue);
    }
  }
}

function hold(model: Model, request: ClaimRequest, session: ModelSession | null, task: ModelTask): void {
  const policy = model.policy(task.queue);
  const named = request.lease ?? policy.lease;
  // A session beats in the rhythm of its own lease: a shorter one would be lost between two signs of life.
  const lease = session === null ? named : Math.max(named, session.lease);
  task.state = "claimed";
  task.elsewhere = null;
  task.claim = {
    fence: ++model.fence,
    worker: request.worker,
    session: request.session ?? null,
    startedAt: model.now,
    lease,
    deadline: model.awake + (request.session === undefined ? lease : policy.timeout),
    cancelled: false,
    progress: null,
  };
}

function handOver(model: Model, task: ModelTask): ClaimedTask {
  const { fence, worker } = task.claim!;
  const flow = model.flow(task.queue);
  flow.claimed++;
  flow.waitMs += model.now - task.createdAt;
  const attempt = task.failures + 1;
  model.announce({
    type: "task.claimed",
    at: model.now,
    queue: task.queue,
    taskId: task.id,
    worker,
    attempt,
  });
  const run = placeOf(task);
  return {
    id: task.id,
    fence,
    queue: task.queue,
    data: task.data,
    contentType: task.contentType,
    headers: task.headers,
    attempt,
    maxAttempts: model.maxAttempts(task),
    priority: task.priority,
    groupKey: task.groupKey,
    createdAt: task.createdAt,
    ...(task.steps.length > 0 && { stepped: true as const }),
    ...(task.feedback !== null && { feedback: task.feedback }),
    ...(run && { run }),
  };
}
