import type { ClaimOutcome, Hint } from "./engine.ts";

/** What a batch made ready and then claimed is nobody's to look for: of that its hint says nothing. */
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
