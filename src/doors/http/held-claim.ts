import { claimLost, isDibsError } from "../../core/errors/errors.ts";
import type { Port } from "../../core/port.ts";
import type { SettleCall } from "../../core/task/claim-call.ts";
import type { ClaimRef, TaskRecord, TaskState } from "../../core/task/task.ts";

/** Claims that requests name by id and fence. */

export function refOf(params: Record<string, unknown>): ClaimRef {
  const { id, fence } = params as unknown as ClaimRef;
  return { id, fence };
}

/** A claim on a task that does not exist is CLAIM_LOST. */
export async function heldTask(port: Port, { id, fence }: ClaimRef): Promise<TaskRecord> {
  try {
    return await port.task(id);
  } catch (error) {
    throw isDibsError(error) && error.code === "TASK_NOT_FOUND" ? claimLost(id, fence) : error;
  }
}

/** Reads the queue and the attempt only for settlements that compute a backoff. */
export async function settle(port: Port, ref: ClaimRef, call: SettleCall): Promise<{ state: TaskState }> {
  if (call.kind !== "nack" && call.kind !== "hold")
    return port.settle({ ...ref, queue: "", attempt: 1 }, { ...call });
  const { queue, attempt } = await heldTask(port, ref);
  return port.settle({ ...ref, queue, attempt }, call);
}
