import { allowanceOf } from "./allowance.ts";
import type { QueuePolicy } from "./policy.ts";
import { type Meter, earliestStart } from "./rate.ts";
import type { HeldBack } from "../task/task.ts";

/** Why a queue that has ready tasks starts none now: `stats().heldBack` of every engine. */

/** What an engine counts for a queue with limits. */
interface Counted {
  heldUntil: number;
  meter: Meter;
  running: number;
}

/**
 * Why the first task in the line may not start; null: it may. If several reasons apply, returns the first in this
 * order.
 */
export function heldBackBy(
  policy: QueuePolicy,
  { heldUntil, meter, running }: Counted,
  first: { urgent: boolean; cost: number },
  now: number,
): HeldBack | null {
  if (heldUntil > now) return { by: "hold", until: heldUntil };
  const { room, urgentOnly, until } = allowanceOf(policy, heldUntil, () => running, now);
  if (urgentOnly && !first.urgent) return { by: "window", until };
  if (room === 0) return { by: "concurrency", until: null };
  const opens = earliestStart(policy.rateLimit, meter, first.cost, now);
  return opens > now ? { by: "rate", until: opens } : null;
}

/**
 * The reason if the line is empty and tasks wait because of their groups' limits. `wakeAt`: when the first of them may
 * be promoted; null: time alone promotes none of them.
 */
export function heldBackByGroups(wakeAt: number | null, now: number): HeldBack | null {
  return wakeAt !== null && wakeAt > now ? { by: "groups", until: wakeAt } : null;
}
