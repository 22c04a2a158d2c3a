import { verdictOfStage } from "../../core/run/run.ts";
import { type Verified, verificationTask } from "../../core/handler/verification.ts";
import type { Settlement } from "../../engine/settlement.ts";
import { reportAdded } from "../../engine/follow-up-adds.ts";
import { addChecked, checkAdds } from "./add.ts";
import { closeAttempt, dropClaim, end, findAsked, refuse, stepAside } from "./line.ts";
import type { Model, ModelTask } from "./model.ts";
import { continueRun, plan } from "./runs.ts";
import { fanOut } from "./topics.ts";

/** A success in a verified queue: its result, the tasks that it adds and its group wait for a verdict. */
export function askForVerdict(
  model: Model,
  task: ModelTask,
  { result, adds = [], each, next }: Settlement & { kind: "done" },
): void {
  const { id, queue } = task;
  const { fence, worker, startedAt } = task.claim!;
  dropClaim(model, task);
  task.state = "verifying";
  model.announce({ type: "task.verifying", at: model.now, queue, taskId: id, worker });
  stepAside(model, task);
  // No limit of the verifiers' queue refuses this task: the result exists, and needs a verdict.
  const added = addChecked(model, [verificationTask(queue, { id, fence })]);
  reportAdded(model.hint, added);
  task.pending = { fence, worker, startedAt, result, adds, each: each ?? false, next, asked: added[0]!.id };
}

/** A verdict ends the verifier's task, and the task it is about if that still waits for this verdict. */
export function settleVerdict(
  model: Model,
  task: ModelTask,
  verdict: Settlement & { kind: "verdict" },
): void {
  if (task.run) throw verdictOfStage(task.id);
  const judged = judgedUnder(model, task, verdict.of);
  if (judged && verdict.accepted) accept(model, judged);
  if (judged && !verdict.accepted) refuse(model, judged, verdict.feedback, verdict.delay, verdict.keepSteps);
  closeAttempt(model, task, "done", null);
  end(model, task, "done");
}

/** The task that the verifier's task is about, if the verdict names the same attempt. */
function judgedUnder(model: Model, asking: ModelTask, { id, fence }: Verified): ModelTask | undefined {
  const judged = findAsked(model, asking);
  return judged?.id === id && judged.pending?.fence === fence ? judged : undefined;
}

function accept(model: Model, task: ModelTask): void {
  const { result, adds: kept, each, next: costs } = task.pending!;
  const next = plan(task, { result, each, ...(costs && { next: costs }) });
  // To the subscriptions of now, not to those when the result came.
  const adds = [...fanOut(model, kept), ...(next?.tasks ?? [])];
  // They were checked when the result came, but a queue may have become full since.
  checkAdds(model, adds);
  task.result = result;
  closeAttempt(model, task, "done", null);
  end(model, task, "done");
  continueRun(model, task, result, next);
  reportAdded(model.hint, addChecked(model, adds));
}
