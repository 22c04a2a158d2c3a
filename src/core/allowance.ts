import type { QueuePolicy } from "./policy.ts";
import { openingAt } from "./window.ts";

/** What may be taken of a queue's line at this moment. */
export interface Allowance {
  /** Claims that its concurrency leaves room for. */
  room: number;
  urgentOnly: boolean;
  /** When that changes by itself; null: it does not. */
  until: number | null;
}

/** `running`: how many are claimed; asked for only where that matters. */
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
