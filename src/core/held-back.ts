import { allowanceOf } from "./allowance.ts";
import type { QueuePolicy } from "./policy.ts";
import { type Meter, earliestStart } from "./rate.ts";
import type { HeldBack } from "./task.ts";

/** What is counted of a queue that has limits. */
interface Counted {
  heldUntil: number;
  meter: Meter;
  running: number;
}

/** Why the first in line may not start; null: it may. Of several reasons the first in this order. */
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

/** Nobody stands in line, and of those that wait for their groups the first may come up then; null: nobody waits for time. */
export function heldBackByGroups(wakeAt: number | null, now: number): HeldBack | null {
  return wakeAt !== null && wakeAt > now ? { by: "groups", until: wakeAt } : null;
}
