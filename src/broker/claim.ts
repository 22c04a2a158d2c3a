import { LONGEST_MS } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { show } from "../core/errors/show.ts";
import { LIMITS } from "../core/input/limits.ts";
import { checkNumber, checkText } from "../core/input/options.ts";
import type { ClaimResult, ClaimCall } from "../core/task/claim-call.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import type { Context } from "./context.ts";
import type { WaitingLine } from "./waiting-line.ts";

// The verb `claim`: checks the request, waits for tasks (waiting-line.ts), and remembers the policies of their queues.

export async function claim(context: Context, line: WaitingLine, call: ClaimCall): Promise<ClaimResult> {
  checkCall(call);
  call.signal?.throwIfAborted();
  const outcome = await context.keepAlive.during(line.claim(call));
  for (const [queue, policy] of Object.entries(outcome.policies)) {
    context.policies.set(queue, policy);
    if (call.session === undefined) context.housekeeper.expect(call.lease ?? policy.lease);
  }
  return outcome;
}

function checkCall(call: ClaimCall): void {
  if (!Array.isArray(call.queues) || call.queues.length === 0)
    throw invalid(`Name at least one queue to claim from, in an array; got ${show(call.queues)}.`);
  call.queues.forEach(checkQueueName);
  checkNumber(call.max, "max", 1, LIMITS.claimBatch);
  if (call.share !== undefined) checkNumber(call.share, "share", 1, LIMITS.claimBatch);
  checkNumber(call.wait, "wait", 0, call.session === undefined ? LIMITS.claimWaitMs : LIMITS.workerWaitMs);
  checkText(call.worker, "worker", LIMITS.workerName);
  if (call.session !== undefined) checkNumber(call.session, "session", 0, Number.MAX_SAFE_INTEGER);
  if (call.lease !== undefined) checkNumber(call.lease, "lease", 1, LONGEST_MS);
}
