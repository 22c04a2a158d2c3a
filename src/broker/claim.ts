import { LONGEST_MS } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import { LIMITS } from "../core/limits.ts";
import { checkNumber, checkText } from "../core/options.ts";
import type { ClaimResult, ClaimCall } from "../core/port.ts";
import { checkQueueName } from "../core/queue-name.ts";
import type { Context } from "./context.ts";
import type { WaitingLine } from "./waiting-line.ts";

export async function claim(context: Context, line: WaitingLine, wish: ClaimCall): Promise<ClaimResult> {
  checkWish(wish);
  wish.signal?.throwIfAborted();
  const outcome = await context.keepAlive.during(line.claim(wish));
  for (const [queue, policy] of Object.entries(outcome.policies)) {
    context.policies.set(queue, policy);
    if (wish.session === undefined) context.keeper.expect(wish.lease ?? policy.lease);
  }
  return outcome;
}

function checkWish(wish: ClaimCall): void {
  if (!Array.isArray(wish.queues) || wish.queues.length === 0)
    throw invalid("Name at least one queue to claim from.");
  wish.queues.forEach(checkQueueName);
  checkNumber(wish.max, "max", 1, LIMITS.claimBatch);
  if (wish.share !== undefined) checkNumber(wish.share, "share", 1, LIMITS.claimBatch);
  checkNumber(wish.wait, "wait", 0, wish.session === undefined ? LIMITS.claimWaitMs : LIMITS.workerWaitMs);
  checkText(wish.worker, "worker", LIMITS.workerName);
  if (wish.session !== undefined) checkNumber(wish.session, "session", 0, Number.MAX_SAFE_INTEGER);
  if (wish.lease !== undefined) checkNumber(wish.lease, "lease", 1, LONGEST_MS);
}
