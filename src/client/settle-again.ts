import { type DibsError, isDibsError } from "../core/errors.ts";
import type { Port, SettleRef, SettleCall } from "../core/port.ts";
import type { AttemptOutcome, TaskState } from "../core/task.ts";
import type { Verified } from "../core/verification.ts";

/** What the ledger says of a claim that ended by this word. A cancelled task ends with that, whatever is said. */
const OUTCOMES: Record<SettleCall["kind"], AttemptOutcome[]> = {
  // Refused by a verifier since, it was said all the same.
  ack: ["done", "refused", "cancelled"],
  nack: ["failed", "timeout", "cancelled"],
  hold: ["limited", "cancelled"],
  reject: ["rejected", "cancelled"],
  release: ["released", "cancelled"],
  park: ["parked", "cancelled"],
  // Of the verifier's own task.
  accept: ["done", "cancelled"],
  refuse: ["done", "cancelled"],
};

/**
 * A settlement whose answer was lost was sent again, and the claim is gone. A fence is one holder's: if the ledger says
 * that the claim ended as we said, it was we who ended it, and the first sending was carried out.
 */
export async function settledBefore(
  port: Pick<Port, "history" | "task" | "verifying">,
  { id, fence }: SettleRef,
  word: SettleCall,
  refusal: DibsError,
): Promise<{ state: TaskState }> {
  if (refusal.code !== "CLAIM_LOST") throw refusal;
  // It leaves no row, and whoever gave a task back does not ask where it went.
  if (word.kind === "release" && !word.started) return { state: "ready" };
  if (word.kind === "ack" && (await isVerifying(port, { id, fence }))) return { state: "verifying" };
  const attempt = (await port.history(id)).find((row) => row.fence === fence);
  if (!attempt || !OUTCOMES[word.kind].includes(attempt.outcome)) throw refusal;
  if (attempt.outcome === "timeout" && !(word.kind === "nack" && word.outcome === "timeout")) throw refusal;
  return { state: (await port.task(id)).state };
}

/** Whether this claim's result waits for a verdict: the ledger has no row of it until there is one. */
async function isVerifying(port: Pick<Port, "verifying">, claim: Verified): Promise<boolean> {
  try {
    await port.verifying(claim);
    return true;
  } catch (error) {
    if (isDibsError(error) && error.code === "TASK_NOT_FOUND") return false;
    throw error;
  }
}
