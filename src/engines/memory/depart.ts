import { onItsWay, ontoItself } from "../../core/errors.ts";
import { isEnd, rankOf, type TravellingTask } from "../../core/task.ts";
import { hasRuns } from "../../core/run.ts";
import { asAges } from "../../core/travel.ts";
import { deadLetters } from "./dead.ts";
import { inOrder } from "./inspect.ts";
import { findAsked, remove } from "./line.ts";
import type { Model, ModelTask } from "./model.ts";

export function depart(model: Model, queue: string, to: number, limit: number): TravellingTask[] {
  if (to === model.store) throw ontoItself();
  const isUnderWay = (task: ModelTask) => task.run?.run.state === null && task.run.part.state !== "done";
  if ([...model.tasks.values()].some((task) => task.queue === queue && isUnderWay(task)))
    throw hasRuns(queue);
  const astray = held(model, queue).find((task) => task.leaving!.to !== to);
  if (astray) throw onItsWay(queue, astray.leaving!.to, to);
  for (const next of [inLine, delayed, verifying, behindHeads, dead]) {
    const room = limit - held(model, queue).length;
    for (const task of next(model, queue).slice(0, Math.max(0, room)))
      if (!asksHere(model, task)) hold(model, task, to);
  }
  const leaving = held(model, queue).slice(0, limit);
  const ended = model
    .tasksOf(queue, "done", "cancelled", "expired")
    .sort((a, b) => a.endedAt! - b.endedAt! || a.seq - b.seq)
    .slice(0, limit - leaving.length);
  return [...leaving, ...ended].map((task) => travelling(model, task));
}

function held(model: Model, queue: string): ModelTask[] {
  return [...model.tasks.values()]
    .filter((task) => task.queue === queue && task.leaving)
    .sort((a, b) => a.leaving!.n - b.leaving!.n);
}

function inLine(model: Model, queue: string): ModelTask[] {
  return model.tasksOf(queue, "ready").sort((a, b) => rankOf(a) - rankOf(b) || a.place - b.place);
}

function delayed(model: Model, queue: string): ModelTask[] {
  return model.tasksOf(queue, "scheduled", "parked").sort((a, b) => a.pos - b.pos);
}

function verifying(model: Model, queue: string): ModelTask[] {
  return model.tasksOf(queue, "verifying").sort((a, b) => a.seq - b.seq);
}

/**
 * Only where the head is leaving too: were it running here, they would overtake it. Or where there is none, because none of
 * the group may start yet.
 */
function behindHeads(model: Model, queue: string): ModelTask[] {
  const heads = [...model.tasks.values()].filter((task) => task.queue === queue && task.holdsGroup);
  const groups = Map.groupBy(heads, (task) => task.groupKey!);
  return model
    .tasksOf(queue, "waiting")
    .filter((task) => groups.get(task.groupKey!)?.some(({ leaving }) => leaving) ?? true)
    .sort((a, b) => (a.groupKey === b.groupKey ? a.pos - b.pos : a.groupKey! < b.groupKey! ? -1 : 1));
}

function dead(model: Model, queue: string): ModelTask[] {
  return deadLetters(model, queue, {});
}

/** It asks for a verdict on what is still here, and stays with it: the other store asks for its own. */
function asksHere(model: Model, task: ModelTask): boolean {
  return findAsked(model, task) !== undefined;
}

function hold(model: Model, task: ModelTask, to: number): void {
  task.leaving = { n: ++model.departures, to, cancelled: false };
  task.elsewhere = null;
  task.owner = null;
  // Whoever comes to stand in the group meanwhile waits for all of them.
  if (task.state === "waiting") task.holdsGroup = true;
}

function travelling(model: Model, task: ModelTask): TravellingTask {
  const { now } = model;
  const key =
    task.idempotencyKey === null ? undefined : model.queue(task.queue).keys.get(task.idempotencyKey);
  const holdsKey = key?.id === task.id && (key.forgetAt === null || key.forgetAt > now);
  return {
    origin: task.id,
    queue: task.queue,
    state: task.state as TravellingTask["state"],
    data: task.data,
    contentType: task.contentType,
    headers: task.headers,
    priority: task.priority,
    groupKey: task.groupKey,
    holdsGroup: (task.state === "scheduled" || task.state === "parked") && task.holdsGroup,
    idempotencyKey: task.idempotencyKey,
    holdsKey,
    keyFor: holdsKey && key.forgetAt !== null ? key.forgetAt - now : null,
    maxAttempts: task.maxAttempts,
    cost: task.cost,
    urgent: task.urgent,
    failures: task.failures,
    age: now - task.createdAt,
    dueIn: task.dueAt === null ? null : task.dueAt - now,
    expiresIn: task.expiresAt === null ? null : task.expiresAt - now,
    endedAgo: task.endedAt === null ? null : now - task.endedAt,
    result: task.result,
    waitsFor: task.waitsFor,
    steps: inOrder(task.steps),
    feedback: task.feedback,
    pending: task.pending && {
      worker: task.pending.worker,
      startedAgo: now - task.pending.startedAt,
      result: task.pending.result,
      adds: task.pending.adds,
    },
    ledger: asAges(task.ledger, now),
    cancelRequested: task.leaving?.cancelled ?? false,
  };
}

export function gone(model: Model, tasks: { id: string; cancelled: boolean }[]): { cancelled: string[] } {
  const cancelled: string[] = [];
  for (const { id, cancelled: isKnown } of tasks) {
    const task = model.tasks.get(id);
    if (!task || !(task.leaving || (isEnd(task.state) && task.state !== "dead"))) continue;
    if (task.leaving?.cancelled && !isKnown) {
      cancelled.push(id);
      continue;
    }
    remove(model, task, { keepKey: false });
    model.hint.ended = true;
  }
  return { cancelled };
}
