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
import { newest } from "../statements/newest.ts";
import { forgetIdleLanes } from "../line/free-groups.ts";
import { holdQueue, makeLimited } from "../limits/gates.ts";
import { fillLanes, giveUpLane, holdLane } from "../limits/lane-line.ts";
import { park } from "./park.ts";
import { fanOut } from "./publish.ts";
import { continueRun, plan } from "../flows/runs.ts";
import { toText } from "../statements/text.ts";
import { appendLine } from "../flows/log.ts";
import type { Tx } from "../transaction/tx.ts";
import { askForVerdict, settleVerdict } from "../flows/verify.ts";

/**
 * The verb `settle`, general path: one claim with its fence, any kind of settlement. The transitions are in
 * line/line.ts. Also the verbs `extend` and `progress`.
 */

export async function settle(
  tx: Tx,
  { id, fence, settlement, spent }: Verbs["settle"]["in"],
): Promise<{ state: TaskState }> {
  const task: Held = { ...(await heldTask(tx, id, fence)), spent };
  const { ended } = tx.batch.hint;
  const state = await settleAs(tx, task, settlement);
  // The caller learns the state from the answer, and needs no hint. A verdict may end another task.
  if (!ended && settlement.kind !== "verdict" && !isVerificationQueue(task.queue.name))
    delete tx.batch.hint.ended;
  return { state };
}

/** `reconcile` and `leave` also release claims this way. */
export async function settleAs(tx: Tx, task: Held, settlement: Settlement): Promise<TaskState> {
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

async function settleDone(tx: Tx, task: Held, settlement: Settlement & { kind: "done" }): Promise<TaskState> {
  const { result, adds, each = false } = settlement;
  checkResult(result, task.queue.policy, each, task.queue.name);
  const next = await plan(tx, task, settlement);
  if (next === "over") return endCancelled(tx, task);
  if ((each || settlement.next) && !next) throw notOfRun(tx.id(task.createdAt, task.seq), settlement);
  const added = [...(adds ? await fanOut(tx, adds) : []), ...(next?.tasks ?? [])];
  if (added.length > 0) await checkAdds(tx, added);
  if (task.queue.policy.verified) return askForVerdict(tx, task, settlement);
  await dropClaim(tx, task);
  await endDone(tx, task, result);
  await continueRun(tx, task, result, next);
  if (added.length > 0) reportAdded(tx.batch.hint, await addChecked(tx, added));
  return "done";
}

async function settleReject(
  tx: Tx,
  task: Held,
  settlement: Settlement & { kind: "reject" },
): Promise<TaskState> {
  await closeAttempt(tx, task, "rejected", settlement.error);
  return die(tx, task, settlement.error);
}

async function settleHold(
  tx: Tx,
  task: Held,
  { error, delay }: Settlement & { kind: "hold" },
): Promise<TaskState> {
  const { queue, groupKey } = task;
  await forgetIdleLanes(tx);
  await makeLimited(tx, queue);
  await closeAttempt(tx, task, "limited", error);
  announceTask(tx, "task.released", task, {
    worker: task.worker,
    detail: `${error.name}: ${error.message}`,
  });
  if (groupKey === null) {
    await holdQueue(tx, queue, delay);
    return returnToLine(tx, task, { delay: 0 });
  }
  await holdLane(tx, queue, groupKey, delay);
  // It joins its group again like any other task.
  await giveUpLane(tx, queue, groupKey);
  const state = await returnToLine(tx, { ...task, blocksGroup: false }, { delay: 0 });
  await fillLanes(tx, queue, [groupKey]);
  return state;
}

async function settleRelease(
  tx: Tx,
  task: Held,
  { started, delay = 0 }: Settlement & { kind: "release" },
): Promise<TaskState> {
  if (started) await closeAttempt(tx, task, "released", null);
  else await dropClaim(tx, task);
  announceTask(tx, "task.released", task, { worker: task.worker });
  return returnToLine(tx, task, { delay });
}

const EXTEND = `UPDATE dibs.claim SET deadline = $1 WHERE task = $2`;
const SOONER = `
  UPDATE dibs.session SET overdue_at = $1, n = n + 1 WHERE ${newest("session", "$2")} AND (overdue_at IS NULL OR overdue_at > $1)`;

/** Fenced. Sets, from now, the lease of a manual claim, or the timeout of a worker's claim. */
export async function extend(tx: Tx, { id, fence, lease }: Verbs["extend"]["in"]): Promise<ClaimStatus> {
  const task = await heldTask(tx, id, fence);
  const deadline = tx.now + lease;
  tx.send(EXTEND, deadline, task.seq);
  if (task.session !== null) tx.send(SOONER, deadline, task.session);
  else {
    tx.floors.lowerTime("hand", deadline);
    tx.batch.noteDue(deadline);
  }
  return { cancelRequested: task.cancelled };
}

const PROGRESS = `UPDATE dibs.claim SET progress = $1, note = $2 WHERE task = $3`;

export async function progress(
  tx: Tx,
  { id, fence, value, note, log }: Verbs["progress"]["in"],
): Promise<ClaimStatus> {
  const task = await heldTask(tx, id, fence);
  if (log !== undefined) appendLine(tx, task.seq, { fence, at: tx.now, text: log });
  const status = { cancelRequested: task.cancelled };
  if (value === null) return status;
  tx.send(PROGRESS, value, note && toText(note), task.seq);
  announceTask(tx, "task.progress", task, { detail: note ?? `${value}` });
  return status;
}
