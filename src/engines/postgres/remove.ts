import { isVerificationQueue } from "../../core/verification.ts";
import { freeGroup, missVerdicts } from "./line.ts";
import type { Found } from "./place.ts";
import { callOff, loseParts } from "./runs.ts";
import { DELETE_STEPS } from "./steps.ts";
import { takeOut } from "./take-out.ts";
import type { Tx } from "./tx.ts";

const DELETE_TASK = `DELETE FROM dibs.task WHERE seq = $1`;
const DELETE_LEDGER = `DELETE FROM dibs.attempt WHERE task = $1`;
const DELETE_KEY = `DELETE FROM dibs.idempotency WHERE queue = $1 AND key = $2 AND task = $3`;

/**
 * Gone without a trace: purged, discarded or dropped. Its key is free. (Those past their retention: care.ts.)
 * Answers whether it was still where it was found.
 */
export async function remove(tx: Tx, task: Found): Promise<boolean> {
  if (!(await takeOut(tx, task))) return false;
  await removeTaken(tx, task);
  return true;
}

/** The same, of one that was taken out of its place. */
export async function removeTaken(tx: Tx, task: Found): Promise<void> {
  const runs = await loseParts(tx, [task]);
  tx.send(DELETE_TASK, task.seq);
  tx.send(DELETE_LEDGER, task.seq);
  tx.send(DELETE_STEPS, task.seq);
  if (task.key !== null) tx.send(DELETE_KEY, task.queue.id, task.key, task.seq);
  if (task.holdsGroup && (task.queue.limited || !(await isFollowed(tx, task))))
    await freeGroup(tx, task.queue, task.groupKey!);
  if (isVerificationQueue(task.queue.name)) await missVerdicts(tx, [task.seq]);
  await callOff(tx, runs);
}

const LEAVING_BEHIND = `SELECT 1 FROM dibs.leaving WHERE queue = $1 AND group_key = $2 AND holds_group LIMIT 1`;

/** Others of its group are leaving too: it waits for the last of them. */
export async function isFollowed(tx: Tx, { place, queue, groupKey }: Found): Promise<boolean> {
  return place.state === "leaving" && (await tx.get(LEAVING_BEHIND, queue.id, groupKey)) !== undefined;
}
