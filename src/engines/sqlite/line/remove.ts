import { isVerificationQueue } from "../../../core/handler/verification.ts";
import { DELETE_LOG } from "../flows/log.ts";
import { loseRelatives } from "../flows/children.ts";
import { endLostRuns, losePart } from "../flows/runs.ts";
import { DELETE_STEPS } from "../flows/steps.ts";
import type { Tx } from "../transaction/tx.ts";
import { type Found, takeOut } from "./find-task.ts";
import { followEnds } from "./follow-ends.ts";
import { freeGroup, missVerdict } from "./line.ts";

/** Deletes tasks for `purge`, `drop` and `discard`. */

const DELETE_TASK = `DELETE FROM task WHERE seq = ?`;
const DELETE_LEDGER = `DELETE FROM attempt WHERE task = ?`;
const DELETE_KEY = `DELETE FROM idempotency WHERE queue = ? AND key = ? AND task = ?`;

/**
 * Deletes a task that is purged, discarded or dropped, with its ledger, and frees its key. Tasks past their retention:
 * verbs/housekeeping.ts.
 */
export function remove(tx: Tx, task: Found): void {
  losePart(tx, task);
  loseRelatives(tx, task);
  takeOut(tx, task);
  tx.run(DELETE_TASK, task.seq);
  tx.run(DELETE_LEDGER, task.seq);
  tx.run(DELETE_LOG, task.seq);
  tx.run(DELETE_STEPS, task.seq);
  if (task.blocksGroup) freeGroup(tx, task.queue, task.groupKey!);
  if (task.key !== null) tx.run(DELETE_KEY, task.queue.id, task.key, task.seq);
  if (isVerificationQueue(task.queue.name)) missVerdict(tx, task.seq);
  endLostRuns(tx);
  followEnds(tx);
}
