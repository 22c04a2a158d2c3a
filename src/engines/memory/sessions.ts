import { isSilent, sessionGone } from "../../core/task/lease.ts";
import { sizeOfRow } from "../../core/answer/answer-size.ts";
import type { Paged } from "../../core/answer/page.ts";
import type { WorkerRecord } from "../../core/task/task.ts";
import { mapPage, numberAfter, pageOf } from "../../engine/cursor.ts";
import type { Notice } from "../../engine/hint.ts";
import type { Verbs } from "../../engine/engine.ts";
import type { Model, ModelSession } from "./model.ts";
import { settleAs } from "./settle.ts";
import { claimsOf, releaseSticky, endOverdue, expireClaim } from "./sweep.ts";

/** Verbs of workers: from `join` and `heartbeat` to `leave`, and the list of workers. */

export function join(model: Model, { worker, lease }: Verbs["join"]["in"]): { session: number } {
  const id = ++model.session;
  model.sessions.set(id, {
    id,
    worker,
    lease,
    joinedAt: model.now,
    heartbeatAt: model.awake,
    retired: false,
  });
  model.announce({ type: "worker.joined", at: model.now, worker: worker.id });
  return { session: id };
}

export function heartbeat(model: Model, { sessions }: Verbs["heartbeat"]["in"]): { notices: Notice[] } {
  // All heartbeats first: a retry looks for live workers, and each of these sessions counts as one.
  for (const id of sessions) {
    const session = model.sessions.get(id);
    if (session) session.heartbeatAt = model.awake;
    else model.notices.push({ session: id, kind: "gone" });
  }
  for (const id of sessions) {
    const session = model.sessions.get(id);
    if (session) endOverdue(model, session);
  }
  const notices = model.notices.filter((notice) => sessions.includes(notice.session));
  model.notices = model.notices.filter((notice) => !sessions.includes(notice.session));
  return { notices };
}

export function reconcile(model: Model, { session, fences }: Verbs["reconcile"]["in"]): { released: number } {
  const unknown = claimsOf(model, session)
    .filter((task) => !fences.includes(task.claim!.fence))
    .sort((a, b) => a.seq - b.seq);
  for (const task of unknown) settleAs(model, task, { kind: "release", started: false });
  return { released: unknown.length };
}

export function rejoin(
  model: Model,
  { session: old, fences }: Verbs["rejoin"]["in"],
): { session: number; lease: number; lost: number[] } {
  const session = model.sessions.get(old);
  if (!session) throw sessionGone(old);
  const id = ++model.session;
  model.sessions.delete(old);
  model.sessions.set(id, { ...session, id, heartbeatAt: model.awake });
  for (const notice of model.notices) if (notice.session === old) notice.session = id;
  for (const task of claimsOf(model, old)) task.claim!.session = id;
  for (const task of model.tasks.values()) if (task.owner === old) task.owner = id;
  for (const { lanes } of model.queues.values())
    for (const lane of lanes.values()) if (lane.session === old) lane.session = id;
  const held = new Set(claimsOf(model, id).map((task) => task.claim!.fence));
  reconcile(model, { session: id, fences });
  return { session: id, lease: session.lease, lost: fences.filter((fence) => !held.has(fence)) };
}

export function retire(model: Model, { session: id }: Verbs["retire"]["in"]): null {
  const session = model.sessions.get(id);
  if (!session) return null;
  session.retired = true;
  releaseSticky(model, id);
  return null;
}

export function leave(
  model: Model,
  { session: id, lost = false }: Verbs["leave"]["in"],
): { released: number } {
  const session = model.sessions.get(id);
  if (!session) return { released: 0 };
  // Delete the session first: a worker that stops cannot take over a released task.
  model.sessions.delete(id);
  const held = claimsOf(model, id).sort((a, b) => a.seq - b.seq);
  for (const task of held) {
    if (lost) expireClaim(model, task);
    else settleAs(model, task, { kind: "release", started: true });
  }
  releaseSticky(model, id);
  model.notices = model.notices.filter((notice) => notice.session !== id);
  model.announce({ type: lost ? "worker.lost" : "worker.left", at: model.now, worker: session.worker.id });
  return { released: held.length };
}

export function workers(model: Model, { queue, after, limit }: Verbs["workers"]["in"]): Paged<WorkerRecord> {
  const start = numberAfter(after);
  const found = liveSessions(model, queue).filter(({ id }) => id > start);
  const page = pageOf(found, limit, { sizeOf: ({ worker }) => sizeOfRow(worker), keyOf: ({ id }) => [id] });
  return mapPage(page, (session) => ({
    ...session.worker,
    joinedAt: session.joinedAt,
    silentFor: model.awake - session.heartbeatAt,
    claims: claimsOf(model, session.id).length,
  }));
}

/** Sessions with a heartbeat within their lease: all of them, or those that serve a queue. */
export function liveSessions(model: Model, queue: string | undefined): ModelSession[] {
  return [...model.sessions.values()]
    .filter((session) => !isSilent(session, model.awake))
    .filter((session) => queue === undefined || session.worker.queues.includes(queue));
}
