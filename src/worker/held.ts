import type { QueuePolicy } from "../core/policy.ts";
import type { ClaimedTask } from "../core/task.ts";
import type { Task } from "./task.ts";

/**
 * What became of a task that a worker holds, other than by its handler.
 *
 *   working ──▶ cancelled   the handler is asked to stop; whatever it answers, the task ends cancelled
 *           ──▶ stopped     the worker stops; a throw from here on is a release, not a failure
 *           ──▶ timedOut    failed by the worker; the handler's answer no longer matters
 *           ──▶ lost        somebody else has it; nothing may be said about it any more
 */
export type Fate = "working" | "cancelled" | "stopped" | "timedOut" | "lost";

/** A task in a worker's hands: fetched ahead (`task` is null), or being worked on. */
export interface Held {
  claimed: ClaimedTask;
  policy: QueuePolicy;
  /** Of the worker's sessions the one that it was claimed for. */
  session: number | undefined;
  /** The worker's clock, to know how long it lay before it was started. */
  claimedAt: number;
  /** The worker's clock: when its handler is out of time. */
  deadline: number;
  task: Task | null;
  fate: Fate;
  /** Ends the wait for the handler. */
  letGo: (() => void) | null;
}

/** Later fates override earlier ones only upwards: a lost task stays lost. */
const ORDER: Fate[] = ["working", "stopped", "cancelled", "timedOut", "lost"];

export function suffer(held: Held, fate: Fate, reason: unknown): void {
  if (ORDER.indexOf(fate) <= ORDER.indexOf(held.fate)) return;
  held.fate = fate;
  held.task?.abort(reason);
  if (fate === "timedOut" || fate === "lost") held.letGo?.();
}
