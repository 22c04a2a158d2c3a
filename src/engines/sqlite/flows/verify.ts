import { verdictOfStage } from "../../../core/run.ts";
import type { NextCosts } from "../../../core/stage-cost.ts";
import type { TaskState } from "../../../core/task.ts";
import { decodeAdds, encodeAdds, type Verified, verificationTask } from "../../../core/verification.ts";
import type { Settlement } from "../../../engine/engine.ts";
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

const INSERT = `
  INSERT INTO verifying (task, queue, failures, special, fence, started_at, worker, adds, each, next, blocks_group, result,
    asked)
  SELECT seq, queue, ?, ${SPECIAL}, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM task WHERE seq = ?`;

/** A success in a verified queue: the result and what it adds wait for a verdict, and so does its group. */
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
  // It is ours, and no limit turns it away: the result was brought, and somebody is to judge it.
  const of = { id: tx.id(task.createdAt, seq), fence };
  const added = addChecked(tx, [verificationTask(task.queue.name, of)]);
  reportAdded(tx.hint, added);
  const asked = tx.place(added[0]!.id)!.seq;
  const attempt = [failures, fence, startedAt, worker];
  const costs = next ? JSON.stringify(next) : null;
  tx.run(INSERT, ...attempt, kept, each ? 1 : 0, costs, holds ? 1 : 0, result, asked, seq);
  tx.count(task.queue, "verifying", 1);
  return "verifying";
}

/** The verifier's own task ends with it; the one it judged, if it still waits for this. */
export function settleVerdict(tx: Tx, task: Held, verdict: Settlement & { kind: "verdict" }): TaskState {
  if (placeOf(tx, task)) throw verdictOfStage(tx.id(task.createdAt, task.seq));
  const judged = judgedUnder(tx, task, verdict.of);
  if (judged && verdict.accepted) accept(tx, judged);
  if (judged && !verdict.accepted) refuse(tx, judged, verdict.feedback, verdict.delay);
  dropClaim(tx, task);
  return endDone(tx, task, null);
}

/** What the claim's own task asks about, where that is what the verifier speaks of. */
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
  // Those who subscribe by now.
  const adds = [...(text === null ? [] : fanOut(tx, decodeAdds(text))), ...(next?.tasks ?? [])];
  // Checked when they were said, but a queue may have filled up since.
  checkAdds(tx, adds);
  dropVerifying(tx, task);
  endDone(tx, task, result);
  continueRun(tx, task, result, next);
  reportAdded(tx.hint, addChecked(tx, adds));
}
