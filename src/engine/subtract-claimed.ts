import type { ClaimOutcome } from "./claim-request.ts";
import type { Hint } from "./hint.ts";

/**
 * Removes from the hint the tasks that the same batch made ready and then claimed: no other claim can find them. The
 * engines call it.
 */
export function subtractClaimed({ tasks }: ClaimOutcome, hint: Hint): void {
  const { ready } = hint;
  if (!ready) return;
  for (const { queue } of tasks) {
    if (!Object.hasOwn(ready, queue)) continue;
    if (ready[queue]! > 1) ready[queue]!--;
    else delete ready[queue];
  }
  if (Object.keys(ready).length === 0) delete hint.ready;
}
