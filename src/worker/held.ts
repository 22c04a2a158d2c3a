import { DibsError } from "../core/errors/errors.ts";
import type { QueuePolicy } from "../core/queue/policy.ts";
import type { ClaimedTask } from "../core/task/task.ts";
import type { Task } from "./task.ts";

/**
 * What happened to a task that a worker holds, other than by its handler.
 *
 *   working ──▶ cancelled   the handler is asked to stop; whatever it answers, the task ends cancelled
 *           ──▶ stopped     the worker stops; a throw from here on is a release, not a failure
 *           ──▶ timedOut    failed by the worker; the handler's answer no longer matters
 *           ──▶ lost        another worker may have it; the claim can no longer be settled
 */
export type Fate = "working" | "cancelled" | "stopped" | "timedOut" | "lost";

/** A task that a worker holds: prefetched (`task` is null), or in its handler. */
export interface Held {
  claimed: ClaimedTask;
  policy: QueuePolicy;
  /** The session that it was claimed with; a worker can have had several. */
  session: number | undefined;
  /** The worker's clock, to know how long the task waited before it started. */
  claimedAt: number;
  /** The worker's clock: when its handler was called. */
  startedAt: number;
  /** The worker's clock: when its handler times out. */
  deadline: number;
  task: Task | null;
  fate: Fate;
  /** Ends the wait for the handler. */
  stopWaiting: (() => void) | null;
}

/** A fate is only replaced by a later one in this order: a lost task stays lost. */
const ORDER: Fate[] = ["working", "stopped", "cancelled", "timedOut", "lost"];

export function setFate(held: Held, fate: Fate, reason: unknown): void {
  if (ORDER.indexOf(fate) <= ORDER.indexOf(held.fate)) return;
  held.fate = fate;
  held.task?.abort(reason);
  if (fate === "timedOut" || fate === "lost") held.stopWaiting?.();
}

/**
 * The error of a timeout. The worker's timer and the answer to a heartbeat both may report it; the handler gets the
 * first.
 */
export function outOfTime({ claimed, policy }: Held): DibsError {
  return new DibsError(
    "TIMEOUT",
    `Task ${claimed.id} took longer than its queue's timeout of ${policy.timeout} ms.`,
  );
}
