import type { QueuePolicy } from "./policy.ts";
import { openingAt } from "./window.ts";

/** How much of a queue's line may start now. The engines compute it for each claim, and stats for `heldBack`. */
export interface Allowance {
  /** Claims that maxConcurrency leaves room for. */
  room: number;
  urgentOnly: boolean;
  /** When this changes by itself; null: it does not. */
  until: number | null;
}

/** `running` counts the claimed tasks. It is called only if the policy limits concurrency. */
export function allowanceOf(
  { maxConcurrency, window }: QueuePolicy,
  heldUntil: number,
  running: () => number,
  now: number,
): Allowance {
  if (heldUntil > now) return { room: 0, urgentOnly: false, until: heldUntil };
  const room = maxConcurrency === null ? Number.POSITIVE_INFINITY : Math.max(0, maxConcurrency - running());
  const opening = window && openingAt(window, now);
  const isClosed = opening !== null && !opening.open;
  return { room, urgentOnly: isClosed, until: isClosed ? opening.until : null };
}
