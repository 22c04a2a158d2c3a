import {
  AnswerSize,
  countFitting,
  sizeOfBody,
  sizeOfClaimed,
  sizeOfHeaders,
} from "../../core/answer/answer-size.ts";
import { deadlineOf, isSilent, leaseOfClaim, sessionGone } from "../../core/task/lease.ts";
import { type ClaimedTask, rankOf } from "../../core/task/task.ts";
import { BOUNDS } from "../../engine/bounds.ts";
import type { ClaimOutcome, ClaimRequest } from "../../engine/claim-request.ts";
import { firstRound, nextRound, type Round } from "../../engine/claim-rounds.ts";
import { subtractClaimed } from "../../engine/subtract-claimed.ts";
import { allowanceFor, countStart, isGoverned, start, startsAt, wakeAt } from "./lanes.ts";
import { end, fillLane, isExpired } from "./line.ts";
import type { Model, ModelQueue, ModelSession, ModelTask } from "./model.ts";
import { placeOf } from "./runs.ts";
import { sweep } from "./sweep.ts";

/** The verb `claim`: sweeps what is due, and hands out the first tasks of the lines that the limits allow. */

export function claim(model: Model, request: ClaimRequest): ClaimOutcome {
  const session = request.session === undefined ? null : liveSession(model, request.session);
  sweep(model);
  const outcome: ClaimOutcome = { tasks: [], policies: {}, passed: false, more: false };
  const turn: Turn = { request, session, outcome, size: new AnswerSize() };
  let round: Round | undefined = firstRound(request);
  while (round) {
    const { queues, share } = round;
    round = nextRound(
      request,
      outcome,
      queues.filter((queue) => take(model, turn, queue, share) === share),
    );
  }
  // Counts as a heartbeat: a queue's lease may be shorter than the time since the last one.
  // Only if it got a task, so that the repeated claims of an idle worker write nothing.
  if (session && outcome.tasks.length > 0) session.heartbeatAt = model.awake;
  subtractClaimed(outcome, model.hint);
  return outcome;
}

/** One claim request, and what it got so far. */
interface Turn {
  request: ClaimRequest;
  session: ModelSession | null;
  outcome: ClaimOutcome;
  size: AnswerSize;
}

/** A session past its lease is refused even before a sweep: nothing would keep its new claims. */
function liveSession(model: Model, id: number): ModelSession {
  const session = model.sessions.get(id);
  if (!session || isSilent(session, model.awake)) throw sessionGone(id);
  return session;
}

/** Claims up to `count` tasks of one queue, in order, as far as its limits allow. Returns how many. */
function take(model: Model, turn: Turn, name: string, count: number): number {
  const { request, outcome, size } = turn;
  const queue = model.queues.get(name);
  if (Math.min(count, request.max - outcome.tasks.length) <= 0 || !queue || queue.paused) return 0;
  if (size.isFull) return 0;
  if (queue.reviewed !== null) {
    outcome.more = true;
    return 0;
  }
  const before = outcome.tasks.length;
  const { room: allowed, urgentOnly, until } = allowanceFor(model, queue);
  const opens = until !== null && model.tasksOf(name, "ready").length > 0 ? [until] : [];
  let room = Math.min(count, request.max - outcome.tasks.length, allowed);
  while (room > 0) {
    const { taken, next } = takeLine(model, turn, queue, { room, urgentOnly });
    room -= taken;
    if (next > model.now) opens.push(next);
    // With limits of groups, the claimed tasks made room for others, which were promoted.
    if (taken === 0 || size.isFull || !isGoverned(model, name)) break;
  }
  if (opens.length > 0) wakeAt(model, queue.gate, Math.min(...opens, queue.gate.wakeAt ?? opens[0]!));
  return outcome.tasks.length - before;
}

/** Takes tasks that are in the line now. Returns how many left it, and when the next one may. */
function takeLine(
  model: Model,
  { request, session, outcome, size }: Turn,
  queue: ModelQueue,
  { room, urgentOnly }: { room: number; urgentOnly: boolean },
): { taken: number; next: number } {
  const line = model
    .tasksOf(queue.name, "ready")
    .filter((task) => task.urgent || !urgentOnly)
    .sort((a, b) => rankOf(a) - rankOf(b) || a.place - b.place);
  const elsewhere = line.filter((task) => task.elsewhere).slice(0, BOUNDS.retryScan);
  const allowed = elsewhere.filter((task) => !task.elsewhere!.avoid.includes(request.worker));
  const isOthers = (task: ModelTask) => task.owner !== null && task.owner !== request.session;
  outcome.passed ||= allowed.length < elsewhere.length || line.some(isOthers);
  const open = line.filter((task) => (!task.elsewhere || allowed.includes(task)) && !isOthers(task));
  const fit = countFitting(open.slice(0, room), sizeOf, size);
  const { taken, next } = withinRates(model, queue, open, Math.min(room, fit));
  if (taken.length === fit && fit < Math.min(room, open.length)) {
    size.close();
    outcome.more = true;
  }
  // Claim all before one of them expires: its end would cancel the others of its run.
  for (const task of taken) if (!isExpired(model, task)) hold(model, request, session, task);
  const held = taken.filter((task) => task.claim);
  for (const task of taken) {
    if (!task.claim) {
      end(model, task, "expired");
      outcome.more = true;
    } else {
      size.add(sizeOf(task));
      outcome.tasks.push(handOver(model, task));
      outcome.policies[queue.name] = model.policy(queue.name);
    }
  }
  if (isGoverned(model, queue.name)) promoteNext(model, session, held);
  return { taken: taken.length, next };
}

function sizeOf({ data, headers }: ModelTask): number {
  return sizeOfClaimed(sizeOfBody(data), sizeOfHeaders(headers));
}

/** The first tasks, as many as the rates of the queue let start, and when the next may. Expired ones do not count. */
function withinRates(
  model: Model,
  queue: ModelQueue,
  line: ModelTask[],
  room: number,
): { taken: ModelTask[]; next: number } {
  const first = line.slice(0, room);
  for (const [index, task] of first.entries()) {
    if (isExpired(model, task)) continue;
    const at = startsAt(model, queue, task);
    if (at > model.now) return { taken: line.slice(0, index), next: at };
    countStart(model, queue, task);
  }
  const after = line[room];
  return { taken: first, next: after ? startsAt(model, queue, after) : model.now };
}

/** Each start counts for its group, and makes room in the line for the next task of the group. */
function promoteNext(model: Model, session: ModelSession | null, held: ModelTask[]): void {
  const grouped = held.filter(({ groupKey }) => groupKey !== null);
  for (const task of grouped) start(model, task, session);
  for (const { queue, groupKey } of grouped) fillLane(model, queue, groupKey!);
}

function hold(model: Model, request: ClaimRequest, session: ModelSession | null, task: ModelTask): void {
  const policy = model.policy(task.queue);
  const lease = leaseOfClaim(request.lease, policy, session);
  task.state = "claimed";
  task.elsewhere = null;
  task.owner = null;
  task.claim = {
    fence: ++model.fence,
    worker: request.worker,
    session: request.session ?? null,
    startedAt: model.now,
    lease,
    deadline: deadlineOf(lease, policy, session, model.awake),
    cancelled: false,
    progress: null,
    spent: null,
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
    ...(task.cost !== null && { cost: task.cost }),
    ...(task.steps.length > 0 && { stepped: true as const }),
    ...(task.feedback !== null && { feedback: task.feedback }),
    ...(run && { run }),
  };
}
