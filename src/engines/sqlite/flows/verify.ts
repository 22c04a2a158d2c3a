import { verdictOfStage } from "../../../core/run/run.ts";
import type { NextCosts } from "../../../core/run/stage-cost.ts";
import type { TaskState } from "../../../core/task/task.ts";
import {
  decodeAdds,
  encodeAdds,
  type Verified,
  verificationTask,
} from "../../../core/handler/verification.ts";
import type { Settlement } from "../../../engine/settlement.ts";
import { reportAdded } from "../../../engine/follow-up-adds.ts";
import { addChecked, checkAdds } from "../verbs/add.ts";
import { bodyFrom } from "../statements/body.ts";
import { findAsked, type VerifyingTask } from "../line/held.ts";
import {
  announceTask,
  dropClaim,
  dropVerifying,
  endDone,
  freeGroup,
  type Held,
  refuse,
  willStepAside,
} from "../line/line.ts";
import { fanOut } from "../verbs/publish.ts";
import { continueRun, placeOf, plan } from "./runs.ts";
import { SPECIAL } from "../statements/special.ts";
import type { Tx } from "../transaction/tx.ts";

/** Results that wait for a verdict, and what a verdict does. `verbs/settle.ts` calls it. */

const INSERT = `
  INSERT INTO verifying (task, queue, failures, special, fence, started_at, worker, adds, each, next, blocks_group, result,
    asked)
  SELECT seq, queue, ?, ${SPECIAL}, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM task WHERE seq = ?`;

/** A success in a verified queue: the result and its adds wait for a verdict. Its group waits too. */
export function askForVerdict(
  tx: Tx,
  task: Held,
  { result, adds = [], each, next }: Settlement & { kind: "done" },
): TaskState {
  dropClaim(tx, task);
  const { seq, failures, fence, startedAt, worker } = task;
  const kept = adds.length > 0 ? encodeAdds(adds) : null;
  const holds = task.blocksGroup && !willStepAside(task);
  announceTask(tx, "task.verifying", task, { worker });
  if (willStepAside(task)) freeGroup(tx, task.queue, task.groupKey!);
  // The store adds it, so no limit applies: the result must be judged.
  const of = { id: tx.id(task.createdAt, seq), fence };
  const added = addChecked(tx, [verificationTask(task.queue.name, of)]);
  reportAdded(tx.batch.hint, added);
  const asked = tx.place(added[0]!.id)!.seq;
  const attempt = [failures, fence, startedAt, worker];
  const costs = next ? JSON.stringify(next) : null;
  tx.run(INSERT, ...attempt, kept, each ? 1 : 0, costs, holds ? 1 : 0, result, asked, seq);
  tx.counters.count(task.queue, "verifying", 1);
  return "verifying";
}

/** The verifier's task ends, and so does the task it judged, unless that one waits for another verdict by now. */
export function settleVerdict(tx: Tx, task: Held, verdict: Settlement & { kind: "verdict" }): TaskState {
  if (placeOf(tx, task)) throw verdictOfStage(tx.id(task.createdAt, task.seq));
  const judged = judgedUnder(tx, task, verdict.of);
  if (judged && verdict.accepted) accept(tx, judged);
  if (judged && !verdict.accepted) refuse(tx, judged, verdict.feedback, verdict.delay, verdict.keepSteps);
  dropClaim(tx, task);
  return endDone(tx, task, null);
}

/** The task about which the claim's task asks, if the verdict names it. */
function judgedUnder(tx: Tx, asking: Held, { id, fence }: Verified): VerifyingTask | undefined {
  const judged = findAsked(tx, asking.seq);
  return judged && judged.fence === fence && tx.id(judged.createdAt, judged.seq) === id ? judged : undefined;
}

function accept(tx: Tx, task: VerifyingTask): void {
  const { adds: text, each, next: costs } = task.row;
  const result = bodyFrom(task.row.result);
  const next = plan(tx, task, {
    ...{ result, each: each === 1 },
    ...(costs !== null && { next: JSON.parse(costs) as NextCosts }),
  });
  // To the subscriptions of this moment.
  const adds = [...(text === null ? [] : fanOut(tx, decodeAdds(text))), ...(next?.tasks ?? [])];
  // They were checked at the ack, but a queue may have filled up since.
  checkAdds(tx, adds);
  dropVerifying(tx, task);
  endDone(tx, task, result);
  continueRun(tx, task, result, next);
  reportAdded(tx.batch.hint, addChecked(tx, adds));
}
