import { fitting, fittingLast, sizeOfAttempt, sizeOfEnd, sizeOfTask } from "../../core/answer/answer-size.ts";
import { shownKey } from "../../core/task/unique.ts";
import { linesOf, withLines } from "../../core/handler/attempt-log.ts";
import { describeFlow, describeServiceTimes, LATEST_SUCCESSES, noFlow } from "../../core/queue/flow.ts";
import { LIMITS } from "../../core/input/limits.ts";
import { heldBackBy, heldBackByGroups } from "../../core/queue/held-back.ts";
import { previewTask } from "../../core/answer/preview.ts";
import { isTaken } from "../../core/task/idempotency.ts";
import type { Page } from "../../core/answer/page.ts";
import { endOfSearch, matchesTask, storedKeyOf, type TaskMatch } from "../../core/task/task-match.ts";
import { taskNotFound } from "../../core/errors/task-not-found.ts";
import {
  type Attempt,
  type Body,
  type HeldBack,
  isEnd,
  rankOf,
  type QueueFigures,
  type QueueStats,
  type Step,
  type TaskEnd,
  type TaskRecord,
  type TaskState,
} from "../../core/task/task.ts";
import type { Verified } from "../../core/handler/verification.ts";
import { least } from "../../core/answer/least.ts";
import { cursorOf, nextOf, parseCursor, type SortKey, taskKeyTypes } from "../../engine/cursor.ts";
import { BOUNDS } from "../../engine/bounds.ts";
import type { ListRequest, Verbs } from "../../engine/engine.ts";
import { relativesOf } from "./children.ts";
import { deadLetters } from "./dead.ts";
import { findJudged } from "./line.ts";
import { costOf, runningOf } from "./lanes.ts";
import type { Model, ModelTask } from "./model.ts";
import { endOfRun, placeOf } from "./runs.ts";
import { liveSessions } from "./sessions.ts";

/**
 * Verbs that read tasks and queues, and change nothing: `get`, `ends`, `steps`, `history`, `list`, `stats`,
 * `verifying`.
 */

export function get(model: Model, { id }: Verbs["get"]["in"]): TaskRecord {
  const task = model.task(id);
  return {
    ...record(model, task),
    ...relativesOf(model, task),
    ...(task.claim && linesOf(task.claim.fence, task.log)),
  };
}

function record(model: Model, task: ModelTask): TaskRecord {
  const last = task.ledger.at(-1);
  return {
    id: task.id,
    queue: task.queue,
    state: task.state,
    data: task.data,
    contentType: task.contentType,
    headers: task.headers,
    priority: task.priority,
    groupKey: task.groupKey,
    ...shownKey(task.idempotencyKey),
    cost: costOf(task),
    urgent: task.urgent,
    attempt: isEnd(task.state) ? (last?.attempt ?? 0) : task.failures + 1,
    maxAttempts: model.maxAttempts(task),
    createdAt: task.createdAt,
    dueAt: task.dueAt,
    waitsFor: task.waitsFor,
    expiresAt: task.expiresAt,
    worker: (task.claim ?? task.pending)?.worker ?? (isEnd(task.state) ? (last?.worker ?? null) : null),
    startedAt:
      (task.claim ?? task.pending)?.startedAt ?? (isEnd(task.state) ? (last?.startedAt ?? null) : null),
    endedAt: task.endedAt,
    progress: task.claim?.progress ?? null,
    cancelRequested: task.claim?.cancelled ?? false,
    result: task.result,
    error: task.error,
    run: placeOf(task),
  };
}

/** The result that waits for a verdict, only if it is of the named attempt. */
export function verifying(model: Model, { id, fence }: Verified): { task: TaskRecord; result: Body | null } {
  const task = findJudged(model, { id, fence });
  if (!task) throw taskNotFound(id);
  return { task: record(model, task), result: task.pending!.result };
}

export function ends(model: Model, { ids, of }: Verbs["ends"]["in"]): Verbs["ends"]["out"] {
  const endOf = of === "runs" ? endOfRun : endOfTask;
  return fitting(
    ids.map((id) => endOf(model, id)),
    sizeOfEnd,
  );
}

function endOfTask(model: Model, id: string): TaskEnd | "pending" | "missing" {
  const task = model.tasks.get(id);
  if (!task) return "missing";
  return isEnd(task.state) ? { id, state: task.state, result: task.result, error: task.error } : "pending";
}

export function steps(model: Model, { id }: Verbs["steps"]["in"]): Step[] {
  return inOrder(model.task(id).steps);
}

export function inOrder(steps: readonly Step[]): Step[] {
  const order = (step: Step) => `${step.kind} ${step.name}`;
  return steps.toSorted((a, b) => (order(a) < order(b) ? -1 : 1));
}

export function history(model: Model, { id }: Verbs["history"]["in"]): Attempt[] {
  const { ledger, log } = model.task(id);
  return fittingLast(withLines(ledger.slice(-LIMITS.page), log), sizeOfAttempt);
}

/** A page, in the order of service (ready), due time (scheduled, parked), group (waiting), arrival (claimed, verifying) or end. */
export function list(
  model: Model,
  { queue, state, filter, match, after, limit, payloads = "preview" }: ListRequest,
): Page {
  const tasks = filter ? deadLetters(model, queue, filter) : inList(model, queue, state, match);
  const start = after === undefined ? null : parseCursor(after, taskKeyTypes(state));
  const rows = tasks
    .map((task) => ({ task, key: sortKey(task) }))
    .sort((a, b) => compare(a.key, b.key))
    .filter(({ key }) => start === null || compare(key, start) > 0);
  const readPage = (shown: ModelTask[]): TaskRecord[] => {
    const records = shown.slice(0, limit).map((task) => record(model, task));
    return fitting(payloads === "full" ? records : records.map(previewTask), sizeOfTask);
  };
  if (!match) {
    const page = readPage(rows.map(({ task }) => task));
    return { tasks: page, next: nextOf(rows, page.length, ({ key }) => key) };
  }
  const compared = rows.slice(0, BOUNDS.search);
  const hits = [...compared.keys()].filter((at) => matchesTask(match, compared[at]!.task));
  const page = readPage(hits.map((at) => compared[at]!.task));
  const isAll = compared.length === rows.length;
  const { searched, isOver } = endOfSearch({ length: compared.length, isAll }, hits, page.length);
  return {
    ...{ tasks: page, searched, now: model.now },
    next: isOver ? null : cursorOf(compared[searched - 1]!.key),
  };
}

/** With a key, only the task that has it now. In a group, only its waiting tasks. */
function inList(model: Model, queue: string, state: TaskState, match: TaskMatch = {}): ModelTask[] {
  const tasks = model.tasksOf(queue, state);
  const name = storedKeyOf(match);
  if (name !== undefined) {
    const key = model.queues.get(queue)?.keys.get(name);
    return key && isTaken(key, model.now) ? tasks.filter(({ id }) => id === key.id) : [];
  }
  // As in the SQL engines, where an index leads to them.
  const { groupKey } = match;
  return state === "waiting" && groupKey !== undefined
    ? tasks.filter((task) => task.groupKey === groupKey)
    : tasks;
}

function sortKey(task: ModelTask): SortKey {
  if (task.state === "ready") return [rankOf(task), task.place];
  if (task.state === "scheduled") return [task.dueAt!, task.seq];
  if (task.state === "parked") return [task.dueAt ?? Number.MAX_SAFE_INTEGER, task.seq];
  if (task.state === "waiting") return [task.groupKey!, task.pos];
  if (task.state === "claimed" || task.state === "verifying") return [task.seq];
  return [task.endedAt!, task.seq];
}

function compare(a: SortKey, b: SortKey): number {
  const i = a.findIndex((part, at) => part !== b[at]);
  return i < 0 ? 0 : a[i]! < b[i]! ? -1 : 1;
}

export function stats(model: Model, { queue }: Verbs["stats"]["in"]): QueueStats {
  return {
    queue,
    exists: model.queues.has(queue),
    paused: model.queues.get(queue)?.paused ?? false,
    ...figuresOf(model, queue),
    serviceTimes: describeServiceTimes(latestServiceTimes(model, queue)),
  };
}

export function figuresOf(model: Model, queue: string): QueueFigures {
  const ready = model.tasksOf(queue, "ready");
  const since = Math.floor((model.now - BOUNDS.rateWindow) / BOUNDS.rateSlot);
  const flow = noFlow();
  for (const [slot, part] of model.queues.get(queue)?.flow ?? []) {
    if (slot <= since) continue;
    for (const name of Object.keys(flow) as (keyof typeof flow)[]) flow[name] += part[name];
  }
  return {
    depth: model.depth(queue),
    oldestAge: ready.length === 0 ? null : model.now - least(ready.map((task) => task.createdAt)),
    ...describeFlow(flow, BOUNDS.rateWindow),
    workers: liveSessions(model, queue).length,
    heldBack: heldBack(model, queue),
  };
}

function latestServiceTimes(model: Model, queue: string): number[] {
  const latest = model
    .tasksOf(queue, "done")
    .sort((a, b) => compare(sortKey(b), sortKey(a)))
    .slice(0, LATEST_SUCCESSES);
  return latest.map((task) => {
    const { startedAt, endedAt } = task.ledger.at(-1)!;
    return endedAt - startedAt;
  });
}

function heldBack(model: Model, name: string): HeldBack | null {
  const queue = model.queues.get(name);
  if (!queue) return null;
  const standing = (task: ModelTask): number => (task.elsewhere ? 1 : task.owner === null ? 0 : 2);
  const [first] = model
    .tasksOf(name, "ready")
    .sort((a, b) => standing(a) - standing(b) || rankOf(a) - rankOf(b) || a.place - b.place);
  if (!first) {
    const times = [...queue.lanes.values()].flatMap(({ wakeAt }) => wakeAt ?? []);
    return heldBackByGroups(times.length === 0 ? null : least(times), model.now);
  }
  const { urgent } = first;
  const counted = { ...queue.gate, running: runningOf(model, name) };
  return heldBackBy(model.policy(name), counted, { urgent, cost: costOf(first) }, model.now);
}
