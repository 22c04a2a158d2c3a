import { checkResult, notOfRun } from "../../../core/run/run.ts";
import { isOverruledByCancel } from "../../../core/task/transition.ts";
import type { ClaimStatus } from "../../../core/task/claim-call.ts";
import type { TaskState } from "../../../core/task/task.ts";
import { isVerificationQueue } from "../../../core/handler/verification.ts";
import type { Settlement } from "../../../engine/settlement.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { reportAdded } from "../../../engine/follow-up-adds.ts";
import { addChecked, checkAdds } from "./add.ts";
import { heldTask } from "../line/held.ts";
import { holdBack } from "../limits/hold-back.ts";
import { fillLane } from "../limits/move-lanes.ts";
import {
  announceTask,
  closeAttempt,
  returnToLine,
  die,
  dropClaim,
  endCancelled,
  endDone,
  fail,
  type Held,
} from "../line/line.ts";
import { park } from "./park.ts";
import { fanOut } from "./publish.ts";
import { continueRun, plan } from "../flows/runs.ts";
import { appendLine } from "../flows/log.ts";
import type { Tx } from "../transaction/tx.ts";
import { askForVerdict, settleVerdict } from "../flows/verify.ts";

/**
 * The verb `settle`, general path: one claim with its fence, any kind of settlement. The transitions are in
 * line/line.ts. Also the verbs `extend` and `progress`.
 */

export function settle(
  tx: Tx,
  { id, fence, settlement, spent }: Verbs["settle"]["in"],
): { state: TaskState } {
  const task = heldTask(tx, id, fence);
  if (spent !== undefined) task.spent = spent;
  const { ended } = tx.batch.hint;
  const state = settleAs(tx, task, settlement);
  // The hint `ended` is for callers that wait elsewhere. This one learns the state from the answer. A verdict may have
  // ended another task.
  if (!ended && settlement.kind !== "verdict" && !isVerificationQueue(task.queue.name))
    delete tx.batch.hint.ended;
  return { state };
}

/** `reconcile` and `leave` also release claims this way. */
export function settleAs(tx: Tx, task: Held, settlement: Settlement): TaskState {
  if (isOverruledByCancel(task.cancelled, settlement.kind)) return endCancelled(tx, task);
  switch (settlement.kind) {
    case "done":
      return settleDone(tx, task, settlement);
    case "fail":
      return fail(tx, task, settlement.outcome ?? "failed", settlement.error, settlement.delay);
    case "reject":
      return settleReject(tx, task, settlement);
    case "hold":
      return settleHold(tx, task, settlement);
    case "release":
      return settleRelease(tx, task, settlement);
    case "park":
      return park(tx, task, settlement);
    case "verdict":
      return settleVerdict(tx, task, settlement);
  }
}

function settleDone(tx: Tx, task: Held, settlement: Settlement & { kind: "done" }): TaskState {
  const { result, adds, each = false } = settlement;
  checkResult(result, task.queue.policy, each, task.queue.name);
  const next = plan(tx, task, settlement);
  if ((each || settlement.next) && !next) throw notOfRun(tx.id(task.createdAt, task.seq), settlement);
  const added = [...(adds ? fanOut(tx, adds) : []), ...(next?.tasks ?? [])];
  if (added.length > 0) checkAdds(tx, added);
  if (task.queue.policy.verified) return askForVerdict(tx, task, settlement);
  dropClaim(tx, task);
  endDone(tx, task, result);
  continueRun(tx, task, result, next);
  if (added.length > 0) reportAdded(tx.batch.hint, addChecked(tx, added));
  return "done";
}

function settleReject(tx: Tx, task: Held, settlement: Settlement & { kind: "reject" }): TaskState {
  closeAttempt(tx, task, "rejected", settlement.error);
  return die(tx, task, settlement.error);
}

function settleHold(tx: Tx, task: Held, { error, delay }: Settlement & { kind: "hold" }): TaskState {
  const { queue, groupKey, worker } = task;
  closeAttempt(tx, task, "limited", error);
  announceTask(tx, "task.released", task, { worker, detail: `${error.name}: ${error.message}` });
  holdBack(tx, task, delay);
  const state = returnToLine(tx, task, { delay: 0 });
  if (groupKey !== null) fillLane(tx, queue, groupKey);
  return state;
}

function settleRelease(
  tx: Tx,
  task: Held,
  { started, delay = 0 }: Settlement & { kind: "release" },
): TaskState {
  if (started) closeAttempt(tx, task, "released", null);
  else dropClaim(tx, task);
  announceTask(tx, "task.released", task, { worker: task.worker });
  return returnToLine(tx, task, { delay });
}

const EXTEND = `UPDATE claim SET deadline = ? WHERE task = ?`;
const SOONER = `UPDATE session SET overdue_at = ? WHERE id = ? AND (overdue_at IS NULL OR overdue_at > ?)`;

/** Fenced. Sets, from now, the lease of a manual claim, or the timeout of a worker's claim. */
export function extend(tx: Tx, { id, fence, lease }: Verbs["extend"]["in"]): ClaimStatus {
  const task = heldTask(tx, id, fence);
  const deadline = tx.awake + lease;
  tx.run(EXTEND, deadline, task.seq);
  if (task.session !== null) tx.run(SOONER, deadline, task.session, deadline);
  else tx.batch.noteDue(tx.now + lease);
  return { cancelRequested: task.cancelled };
}

const PROGRESS = `UPDATE claim SET progress = ?, note = ? WHERE task = ?`;

export function progress(tx: Tx, { id, fence, value, note, log }: Verbs["progress"]["in"]): ClaimStatus {
  const task = heldTask(tx, id, fence);
  if (log !== undefined) appendLine(tx, task.seq, { fence, at: tx.now, text: log });
  const status = { cancelRequested: task.cancelled };
  if (value === null) return status;
  tx.run(PROGRESS, value, note, task.seq);
  announceTask(tx, "task.progress", task, { detail: note ?? `${value}` });
  return status;
}
