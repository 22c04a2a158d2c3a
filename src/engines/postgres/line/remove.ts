import { isVerificationQueue } from "../../../core/handler/verification.ts";
import { cancelRuns } from "./follow-ends.ts";
import { freeGroup, missVerdicts } from "./line.ts";
import type { Found } from "./find-task.ts";
import { deleteKey } from "./keys.ts";
import { loseRelatives } from "../flows/children.ts";
import { loseParts } from "../flows/runs.ts";
import { DELETE_LOG } from "../flows/log.ts";
import { DELETE_STEPS } from "../flows/steps.ts";
import { takeOut } from "./take-out.ts";
import type { Tx } from "../transaction/tx.ts";

/** Deletes tasks for `purge` and `drop`. */

const DELETE_TASK = `DELETE FROM dibs.task WHERE seq = $1`;
const DELETE_LEDGER = `DELETE FROM dibs.attempt WHERE task = $1`;

/**
 * Deletes a task that is purged, discarded or dropped, with its ledger, and frees its key. Returns false if another
 * transaction has moved it. Tasks past their retention: verbs/housekeeping.ts.
 */
export async function remove(tx: Tx, task: Found): Promise<boolean> {
  if (!(await takeOut(tx, task))) return false;
  await removeTaken(tx, task);
  return true;
}

/** As `remove`, for a task that was already taken out of its state. */
export async function removeTaken(tx: Tx, task: Found): Promise<void> {
  const runs = await loseParts(tx, [task]);
  await loseRelatives(tx, [task]);
  tx.send(DELETE_TASK, task.seq);
  tx.send(DELETE_LEDGER, task.seq);
  tx.send(DELETE_LOG, task.seq);
  tx.send(DELETE_STEPS, task.seq);
  if (task.key !== null) deleteKey(tx, { queue: task.queue.id, key: task.key, task: task.seq });
  if (task.blocksGroup) await freeGroup(tx, task.queue, task.groupKey!);
  if (isVerificationQueue(task.queue.name)) await missVerdicts(tx, [task.seq]);
  await cancelRuns(tx, runs);
}
