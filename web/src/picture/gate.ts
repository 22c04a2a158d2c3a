/** What holds the head of a queue, in a few words. */

import type { HeldBack } from "../api/contract.ts";
import { showDuration } from "../format/duration.ts";

const WORDS: Record<HeldBack["by"], string> = {
  hold: "a hold of the queue",
  window: "outside its hours",
  concurrency: "its concurrency limit",
  rate: "its rate limit",
  groups: "limits of its groups",
};

/** "its rate limit, 2 s more"; null: nothing holds it. */
export function gateOf(heldBack: HeldBack | null, now: number): string | null {
  if (heldBack === null) return null;
  const { by, until } = heldBack;
  if (until === null) return `${WORDS[by]}, until a task ends`;
  const left = until - now;
  return left > 1_000 ? `${WORDS[by]}, ${showDuration(Math.ceil(left / 1_000) * 1_000)} more` : WORDS[by];
}
