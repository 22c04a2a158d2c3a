import { BOUNDS } from "../../engine/bounds.ts";
import type { EventsAfter, Verbs } from "../../engine/engine.ts";
import { isTaken } from "../../core/task/idempotency.ts";
import { pastRetention } from "../../core/task/retention.ts";
import { least } from "../../core/answer/least.ts";
import { dueDocuments } from "./documents.ts";
import { remove } from "./line.ts";
import { wakeTimes } from "./lanes.ts";
import type { Model, ModelQueue } from "./model.ts";
import { pruneRuns } from "./runs.ts";
import { claimsOf, sweep } from "./sweep.ts";

/** The verbs `housekeep`, `prune`, `listen` and `unlisten`. */

export function housekeep(model: Model): Verbs["housekeep"]["out"] {
  sweep(model);
  const times: number[] = [];
  for (const task of model.tasks.values()) {
    if (task.dueAt !== null) times.push(task.dueAt - model.now);
    if (task.elsewhere) times.push(task.elsewhere.until - model.now);
    if (task.expiresAt !== null && ["ready", "waiting", "scheduled", "parked"].includes(task.state)) {
      times.push(task.expiresAt - model.now);
    }
    if (task.claim && task.claim.session === null) times.push(task.claim.deadline - model.awake);
  }
  for (const session of model.sessions.values()) {
    const leases = claimsOf(model, session.id).map((task) => task.claim!.lease);
    // A session with claims does not end, however long it has been silent.
    const first = leases.length === 0 ? session.lease : least(leases);
    times.push(session.heartbeatAt + first - model.awake);
  }
  for (const at of wakeTimes(model)) times.push(at - model.now);
  const { due, next } = dueDocuments(model);
  if (next !== null) times.push(next);
  return { next: times.length === 0 ? null : Math.max(0, least(times)), now: model.now, due };
}

export function prune(model: Model, { limit }: Verbs["prune"]["in"]): { removed: number; more: boolean } {
  let removed = 0;
  let more = false;
  for (const queue of model.queues.values()) {
    const doomed = endedToPrune(model, queue);
    for (const task of doomed.slice(0, limit - removed)) remove(model, task, { keepKey: true });
    more ||= doomed.length > limit - removed;
    removed += Math.min(doomed.length, limit - removed);
    for (const [name, key] of queue.keys) {
      if (!isTaken(key, model.now)) queue.keys.delete(name);
    }
    const since = Math.floor((model.now - BOUNDS.rateWindow) / BOUNDS.rateSlot);
    for (const slot of queue.flow.keys()) if (slot <= since) queue.flow.delete(slot);
  }
  pruneEvents(model);
  more = pruneRuns(model, limit) || more;
  return { removed, more };
}

/** Deletes ended tasks past their retention, the earliest end first. */
function endedToPrune(model: Model, queue: ModelQueue) {
  const { retention } = model.policy(queue.name);
  const ended = model
    .tasksOf(queue.name, "done", "cancelled", "expired")
    .sort((a, b) => a.endedAt! - b.endedAt! || a.seq - b.seq);
  return pastRetention(ended, (task) => task.endedAt!, retention, { ended: ended.length, now: model.now });
}

function pruneEvents(model: Model): void {
  for (const [listener, until] of model.listeners) if (until <= model.awake) model.listeners.delete(listener);
  model.events = model.listeners.size === 0 ? [] : model.events.slice(-BOUNDS.events);
}

export function listen(model: Model, { listener, after, limit }: Verbs["listen"]["in"]): EventsAfter {
  const until = model.listeners.get(listener);
  // Renewed rarely: on other engines, each write wakes the other processes and their listeners.
  if (until === undefined || until - model.awake <= (BOUNDS.listenerLease * 2) / 3) {
    model.listeners.set(listener, model.awake + BOUNDS.listenerLease);
  }
  const from = after ?? model.eventSeq;
  const page = model.events.filter(({ n }) => n > from).slice(0, limit);
  const cursor = page.at(-1)?.n ?? model.eventSeq;
  const missed = cursor - from - page.length;
  // Its registration had expired and events were not counted: raise the number, so that the listener sees a gap.
  const wasForgotten = after !== null && until === undefined;
  return {
    events: page.map(({ event }) => JSON.stringify(event)),
    cursor,
    missed: wasForgotten ? Math.max(missed, 1) : missed,
  };
}

export function unlisten(model: Model, { listener }: Verbs["unlisten"]["in"]): null {
  model.listeners.delete(listener);
  return null;
}
