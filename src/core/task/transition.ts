import { isExhausted } from "./retry.ts";
import type { QueuePolicy } from "../queue/policy.ts";
import type { EndState } from "./task.ts";

/**
 * Which state follows when a task leaves one. Pure functions return the transition, and the engines carry it out. Times
 * are the engine's.
 */

/** The due time of a task that waits for a signal without a timeout. */
export const NEVER = Number.MAX_SAFE_INTEGER;

/** What decides the next state of a task that has no claim any more. */
export interface Returning {
  expiresAt: number | null;
  /** The run of a pipeline that it belongs to has ended. */
  runEnded: boolean;
}

/** A claimed task, or one in verification, whose attempt has failed. */
export interface Failed extends Returning {
  /** Including this failure. */
  failures: number;
  maxAttempts: number;
  cancelRequested: boolean;
}

/** What the task waits for before it enters the line. With a `delay` of 0 and no signal it enters at once. */
export interface Wait {
  delay: number;
  /** The task is parked for this signal, which may arrive before the delay has passed. */
  signal?: string | undefined;
}

export type Transition =
  | { to: "cancelled" }
  | { to: "expired" }
  /** Into the line, at its old position, or behind the head of its group. */
  | { to: "line" }
  | { to: "scheduled" | "parked"; dueAt: number };

/** `fail` of the engines carries out a death, since only a failed attempt leads to it. */
export type TransitionOrDeath = Transition | { to: "dead" };

/** After a failure: another attempt, unless this was the last one or the task was cancelled. */
export function afterFailure(task: Failed, wait: Wait, now: number): TransitionOrDeath {
  if (task.cancelRequested || task.runEnded) return { to: "cancelled" };
  if (isExhausted(task.failures, task.maxAttempts)) return { to: "dead" };
  return afterReturn(task, wait, now);
}

/** A task that is released, parked, signalled or redriven, or that failed and has another attempt. */
export function afterReturn({ expiresAt, runEnded }: Returning, wait: Wait, now: number): Transition {
  if (runEnded) return { to: "cancelled" };
  if (isOutlived(expiresAt, now)) return { to: "expired" };
  if (wait.signal === undefined && wait.delay <= 0) return { to: "line" };
  return {
    to: wait.signal === undefined ? "scheduled" : "parked",
    dueAt: Math.min(now + wait.delay, NEVER),
  };
}

/** Its time-to-live has passed. */
export function isOutlived(expiresAt: number | null, now: number): boolean {
  return expiresAt !== null && expiresAt <= now;
}

/** Every settlement of a cancelled task ends the task. A failure is recorded in the ledger as well. */
export function isOverruledByCancel(cancelRequested: boolean, kind: string): boolean {
  return cancelRequested && kind !== "fail";
}

/**
 * The head of a group that waits for a delay, a signal or a verdict does not block the group meanwhile, unless its tasks
 * run strictly one after the other.
 */
export function stepsAside(blocksGroup: boolean, { groups }: Pick<QueuePolicy, "groups">): boolean {
  return blocksGroup && groups.concurrency > 1;
}

/** A delayed task joins its group when it is due, behind the tasks that are there by then. Others keep their position. */
export function joinsGroupWhenDue(task: {
  groupKey: string | null;
  blocksGroup: boolean;
  failures: number;
  signal: string | null;
}): boolean {
  return task.groupKey !== null && !task.blocksGroup && task.failures === 0 && task.signal === null;
}

/** Steps and feedback are for the next attempt. Only a dead task may have one: a redrive continues from its steps. */
export function keepsSteps(state: EndState): boolean {
  return state === "dead";
}
