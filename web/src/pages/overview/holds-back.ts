import type { QueueRow } from "../../api/contract.ts";

const WORDS = {
  hold: "a hold",
  window: "its hours",
  concurrency: "its concurrency limit",
  rate: "its rate limit",
  groups: "its groups",
} as const;

/** What holds a queue back, in a few words; null: nothing does. */
export function holdsBack({ paused, heldBack, depth, workers, rates }: QueueRow): string | null {
  if (paused) return "paused";
  if (heldBack) return WORDS[heldBack.by];
  if (depth.ready === 0) return null;
  if (workers === 0) return "no workers";
  return rates.addedPerSecond > rates.donePerSecond * 1.1 ? "too few workers" : null;
}
