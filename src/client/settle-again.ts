import { type DibsError, isDibsError } from "../core/errors/errors.ts";
import type { Port } from "../core/port.ts";
import type { SettleRef, SettleCall } from "../core/task/claim-call.ts";
import type { AttemptOutcome, TaskState } from "../core/task/task.ts";
import type { Verified } from "../core/handler/verification.ts";

/**
 * The ledger outcomes of a claim that this settlement ended. A cancelled task ends cancelled, whatever the settlement.
 */
const OUTCOMES: Record<SettleCall["kind"], AttemptOutcome[]> = {
  // A verifier may have refused the result in the meantime.
  ack: ["done", "refused", "cancelled"],
  nack: ["failed", "timeout", "cancelled"],
  hold: ["limited", "cancelled"],
  reject: ["rejected", "cancelled"],
  release: ["released", "cancelled"],
  park: ["parked", "cancelled"],
  // The ledger of the verifier's own task.
  accept: ["done", "cancelled"],
  refuse: ["done", "cancelled"],
};

/**
 * A settlement whose answer was lost was sent again, and the claim is gone. A fence belongs to one holder: if the
 * ledger says that the claim ended in this way, this client ended it, and the first sending was executed.
 */
export async function outcomeOfResent(
  port: Pick<Port, "history" | "task" | "verifying">,
  { id, fence }: SettleRef,
  call: SettleCall,
  refusal: DibsError,
): Promise<{ state: TaskState }> {
  if (refusal.code !== "CLAIM_LOST") throw refusal;
  // A release of a task that was not started leaves no row in the ledger. Its caller does not need the outcome.
  if (call.kind === "release" && !call.started) return { state: "ready" };
  if (call.kind === "ack" && (await isVerifying(port, { id, fence }))) return { state: "verifying" };
  const attempt = (await port.history(id)).find((row) => row.fence === fence);
  if (!attempt || !OUTCOMES[call.kind].includes(attempt.outcome)) throw refusal;
  if (attempt.outcome === "timeout" && !(call.kind === "nack" && call.outcome === "timeout")) throw refusal;
  return { state: (await port.task(id)).state };
}

/** Whether this claim's result waits for a verdict: until then the ledger has no row for it. */
async function isVerifying(port: Pick<Port, "verifying">, claim: Verified): Promise<boolean> {
  try {
    await port.verifying(claim);
    return true;
  } catch (error) {
    if (isDibsError(error) && error.code === "TASK_NOT_FOUND") return false;
    throw error;
  }
}
