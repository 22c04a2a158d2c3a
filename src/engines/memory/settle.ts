import { checkResult, notOfRun } from "../../core/run/run.ts";
import { isOverruledByCancel } from "../../core/task/transition.ts";
import type { ClaimStatus } from "../../core/task/claim-call.ts";
import type { TaskState } from "../../core/task/task.ts";
import { isVerificationQueue } from "../../core/handler/verification.ts";
import type { Settlement } from "../../engine/settlement.ts";
import type { Verbs } from "../../engine/engine.ts";
import { reportAdded } from "../../engine/follow-up-adds.ts";
import { addChecked, checkAdds } from "./add.ts";
import {
  closeAttempt,
  returnToLine,
  die,
  dropClaim,
  end,
  endCancelled,
  fail,
  fillLane,
  heldTask,
  holdBack,
} from "./line.ts";
import { LIMITS } from "../../core/input/limits.ts";
import type { Model, ModelTask } from "./model.ts";
import { park } from "./park.ts";
import { continueRun, plan } from "./runs.ts";
import { askForVerdict, settleVerdict } from "./verify.ts";
import { fanOut } from "./topics.ts";

/** The verbs of a holder: `settle`, `extend`, `progress`. Each refuses an old fence. */

export function settle(
  model: Model,
  { id, fence, settlement, spent }: Verbs["settle"]["in"],
): { state: TaskState } {
  const task = heldTask(model, id, fence);
  const { ended } = model.hint;
  const claim = task.claim!;
  claim.spent = spent ?? null;
  try {
    settleAs(model, task, settlement);
  } finally {
    // A settlement that was refused must not leave its cost behind.
    claim.spent = null;
  }
  // The answer has the state, so no hint is needed. A verifier's task may end another task as well.
  if (!ended && settlement.kind !== "verdict" && !isVerificationQueue(task.queue)) delete model.hint.ended;
  return { state: task.state };
}

/** `reconcile` and `leave` also release claims this way. */
export function settleAs(model: Model, task: ModelTask, settlement: Settlement): void {
  if (isOverruledByCancel(task.claim!.cancelled, settlement.kind)) return endCancelled(model, task);
  switch (settlement.kind) {
    case "done":
      settleDone(model, task, settlement);
      break;
    case "fail":
      fail(model, task, settlement.outcome ?? "failed", settlement.error, settlement.delay);
      break;
    case "reject":
      settleReject(model, task, settlement);
      break;
    case "hold":
      settleHold(model, task, settlement);
      break;
    case "release":
      settleRelease(model, task, settlement);
      break;
    case "park":
      park(model, task, settlement);
      break;
    case "verdict":
      settleVerdict(model, task, settlement);
      break;
  }
}

function settleDone(model: Model, task: ModelTask, settlement: Settlement & { kind: "done" }): void {
  const { result, each = false } = settlement;
  checkResult(result, model.policy(task.queue), each, task.queue);
  const next = plan(task, settlement);
  if ((each || settlement.next) && !next) throw notOfRun(task.id, settlement);
  const adds = [...fanOut(model, settlement.adds ?? []), ...(next?.tasks ?? [])];
  checkAdds(model, adds);
  if (model.policy(task.queue).verified) return askForVerdict(model, task, settlement);
  task.result = result;
  closeAttempt(model, task, "done", null);
  end(model, task, "done");
  continueRun(model, task, result, next);
  reportAdded(model.hint, addChecked(model, adds));
}

function settleReject(model: Model, task: ModelTask, settlement: Settlement & { kind: "reject" }): void {
  closeAttempt(model, task, "rejected", settlement.error);
  die(model, task, settlement.error);
}

function settleHold(model: Model, task: ModelTask, { error, delay }: Settlement & { kind: "hold" }): void {
  const { worker } = task.claim!;
  closeAttempt(model, task, "limited", error);
  const detail = `${error.name}: ${error.message}`;
  model.announce({
    type: "task.released",
    at: model.now,
    queue: task.queue,
    taskId: task.id,
    worker,
    detail,
  });
  holdBack(model, task, delay);
  // The hold applies to the task itself too: it has to become a head again, also in a queue without group limits.
  task.blocksGroup = false;
  returnToLine(model, task, { delay: 0 });
  if (task.groupKey !== null) fillLane(model, task.queue, task.groupKey);
}

function settleRelease(
  model: Model,
  task: ModelTask,
  { started, delay = 0 }: Settlement & { kind: "release" },
): void {
  const { worker } = task.claim!;
  if (started) closeAttempt(model, task, "released", null);
  else dropClaim(model, task);
  model.announce({ type: "task.released", at: model.now, queue: task.queue, taskId: task.id, worker });
  returnToLine(model, task, { delay });
}

export function extend(model: Model, { id, fence, lease }: Verbs["extend"]["in"]): ClaimStatus {
  const { claim } = heldTask(model, id, fence);
  claim!.deadline = model.awake + lease;
  return { cancelRequested: claim!.cancelled };
}

export function progress(
  model: Model,
  { id, fence, value, note, log }: Verbs["progress"]["in"],
): ClaimStatus {
  const task = heldTask(model, id, fence);
  const status = { cancelRequested: task.claim!.cancelled };
  if (log !== undefined)
    task.log = [...task.log, { fence, at: model.now, text: log }].slice(-LIMITS.logLines);
  if (value === null) return status;
  task.claim!.progress = { value, note };
  model.announce({
    type: "task.progress",
    at: model.now,
    queue: task.queue,
    taskId: task.id,
    detail: note ?? `${value}`,
  });
  return status;
}
