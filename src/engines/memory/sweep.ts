import { lostError, timeoutError } from "../../core/errors/attempt-errors.ts";
import { isSilent } from "../../core/task/lease.ts";
import { joinsGroupWhenDue } from "../../core/task/transition.ts";
import { isEnd } from "../../core/task/task.ts";
import { BOUNDS } from "../../engine/bounds.ts";
import { followEnds, end, enter, fail, fillLane, isExpired } from "./line.ts";
import { dueLanes } from "./lanes.ts";
import type { Model, ModelSession, ModelTask } from "./model.ts";
import { openGates } from "./review.ts";

/** Applies what is due: leases, delays, times-to-live, holds. At most BOUNDS.sweep of each kind. */
export function sweep(model: Model): void {
  expireSilentSessions(model);
  expireManualClaims(model);
  promoteDue(model);
  endElsewhere(model);
  for (const { queue, key } of dueLanes(model)) fillLane(model, queue, key);
  openGates(model);
  expire(model);
}

const bySeq = (a: ModelTask, b: ModelTask) => a.seq - b.seq;

/** Expires the claims of sessions without a heartbeat, and then the session once it holds none. */
function expireSilentSessions(model: Model): void {
  for (const session of model.sessions.values()) {
    const held = claimsOf(model, session.id);
    const lost = held.filter((task) => isSilent({ ...session, lease: task.claim!.lease }, model.awake));
    for (const task of lost.sort(bySeq).slice(0, BOUNDS.sweep)) expireClaim(model, task);
    if (isSilent(session, model.awake) && claimsOf(model, session.id).length === 0) {
      model.sessions.delete(session.id);
      releaseSticky(model, session.id);
      model.notices = model.notices.filter((notice) => notice.session !== session.id);
      model.announce({ type: "worker.lost", at: model.now, worker: session.worker.id });
    }
  }
}

/** Tasks that were reserved for a session become free for every worker. */
export function releaseSticky(model: Model, session: number): void {
  for (const task of model.tasks.values()) {
    if (task.owner !== session) continue;
    task.owner = null;
    model.hintReady(task.queue);
  }
}

export function expireClaim(model: Model, task: ModelTask): void {
  const { session, fence, worker } = task.claim!;
  if (session !== null) model.notices.push({ session, kind: "lost", id: task.id, fence });
  fail(model, task, "lost", lostError(worker), 0);
  followEnds(model);
}

function expireManualClaims(model: Model): void {
  const expired = [...model.tasks.values()].filter(
    (task) => task.claim && task.claim.session === null && task.claim.deadline <= model.awake,
  );
  expired.sort((a, b) => a.claim!.deadline - b.claim!.deadline || bySeq(a, b));
  for (const task of expired.slice(0, BOUNDS.sweep)) expireClaim(model, task);
}

/** Ends claims past their timeout. Only the session's own heartbeat calls this; a silent session loses all its claims. */
export function endOverdue(model: Model, session: ModelSession): void {
  const overdue = claimsOf(model, session.id).filter((task) => task.claim!.deadline <= model.awake);
  for (const task of overdue.sort(bySeq)) {
    model.notices.push({ session: session.id, kind: "timeout", id: task.id, fence: task.claim!.fence });
    fail(model, task, "timeout", timeoutError(), 0);
  }
}

export function claimsOf(model: Model, session: number): ModelTask[] {
  return [...model.tasks.values()].filter((task) => task.claim?.session === session);
}

function promoteDue(model: Model): void {
  const due = [...model.tasks.values()].filter((task) => task.dueAt !== null && task.dueAt <= model.now);
  due.sort((a, b) => a.dueAt! - b.dueAt! || bySeq(a, b));
  for (const task of due.slice(0, BOUNDS.sweep)) promote(model, task);
}

/** A scheduled task is due, or the wait of a parked one is over. */
export function promote(model: Model, task: ModelTask): void {
  if (joinsGroupWhenDue({ ...task, signal: task.waitsFor })) task.pos = ++model.seq;
  if (task.waitsFor !== null) task.steps.push({ kind: "timeout", name: task.waitsFor, value: null });
  enter(model, task);
}

/** Ends the retry-elsewhere wait: no other worker claimed the task in time, so every worker may. */
function endElsewhere(model: Model): void {
  const waiting = [...model.tasks.values()].filter(
    (task) => task.elsewhere && task.elsewhere.until <= model.now,
  );
  waiting.sort((a, b) => a.elsewhere!.until - b.elsewhere!.until || bySeq(a, b));
  for (const task of waiting.slice(0, BOUNDS.sweep)) {
    task.elsewhere = null;
    model.hintReady(task.queue);
  }
}

function expire(model: Model): void {
  const outlived = [...model.tasks.values()].filter(
    (task) => ["ready", "waiting", "scheduled", "parked"].includes(task.state) && isExpired(model, task),
  );
  outlived.sort((a, b) => a.expiresAt! - b.expiresAt! || bySeq(a, b));
  // The end of one task cancels the others of its run, which may be in this list.
  for (const task of outlived.slice(0, BOUNDS.sweep)) {
    if (isEnd(task.state)) continue;
    end(model, task, "expired");
    followEnds(model);
  }
}
