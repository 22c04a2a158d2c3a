import { DibsError } from "./errors.ts";

export function taskNotFound(id: string): DibsError {
  return new DibsError(
    "TASK_NOT_FOUND",
    `There is no task ${id} in this store. It may have been purged or discarded, or have ended longer ago than its queue's retention, or the transaction that adds it is not committed.`,
  );
}
