import type { TaskState } from "../../core/task.ts";
import { decodeAdds, encodeAdds, verificationTask } from "../../core/verification.ts";
import type { Settlement } from "../../engine/engine.ts";
import { add, checkAdds } from "./add.ts";
import { bodyFrom } from "./body.ts";
import { findJudged, type VerifyingRow } from "./held.ts";
import { announceTask, dropClaim, dropVerifying, endCancelled, endDone, type Held, refuse } from "./line.ts";
import { fanOut } from "./publish.ts";
import type { Tx } from "./tx.ts";

const INSERT = `
  INSERT INTO verifying (task, queue, failures, special, fence, started_at, worker, adds, result)
  SELECT task, queue, failures, special, fence, started_at, worker, ?, ? FROM claim WHERE task = ?`;

/** A success in a verified queue: the result and what it adds wait for a verdict, and so does its group. */
export function askForVerdict(
  tx: Tx,
  task: Held,
  { result, adds }: Settlement & { kind: "done" },
): TaskState {
  tx.run(INSERT, adds && adds.length > 0 ? encodeAdds(adds) : null, result, task.seq);
  dropClaim(tx, task);
  tx.count(task.queue, "verifying", 1);
  announceTask(tx, "task.verifying", task, { worker: task.worker });
  const id = tx.id(task.createdAt, task.seq);
  add(tx, [verificationTask(task.queue.name, { id, fence: task.fence })]);
  return "verifying";
}

/** The verifier's own task ends with it; the one it judged, if it still waits for this. */
export function settleVerdict(tx: Tx, task: Held, verdict: Settlement & { kind: "verdict" }): TaskState {
  if (task.cancelled) return endCancelled(tx, task);
  const judged = findJudged(tx, verdict.of);
  if (judged && verdict.accepted) accept(tx, judged);
  if (judged && !verdict.accepted) refuse(tx, judged, verdict.feedback, verdict.delay);
  dropClaim(tx, task);
  return endDone(tx, task, null);
}

function accept(tx: Tx, task: Held & { row: VerifyingRow }): void {
  const { result, adds: text } = task.row;
  // Those who subscribe by now.
  const adds = text === null ? [] : fanOut(tx, decodeAdds(text));
  // Checked when they were said, but a queue may have filled up since.
  checkAdds(tx, adds);
  dropVerifying(tx, task);
  endDone(tx, task, bodyFrom(result));
  add(tx, adds);
}
