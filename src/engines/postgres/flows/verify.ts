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
import {
  announceTask,
  dropClaim,
  dropVerifying,
  endCancelled,
  endDone,
  freeGroup,
  type Held,
  refuse,
  willStepAside,
} from "../line/line.ts";
import { findAsked, type VerifyingTask } from "../line/held.ts";
import { fanOut } from "../verbs/publish.ts";
import { placesOf } from "./run-place.ts";
import { continueRun, plan } from "./runs.ts";
import { fromColumns, toColumns } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** Results that wait for a verdict, and what a verdict does. `verbs/settle.ts` calls it. */

const INSERT = `
  INSERT INTO dibs.verifying (task, asked, fence, started_at, queue, failures, worker, adds, "each", next, result, result_bytes)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`;

const STEP_ASIDE = `INSERT INTO dibs.stepped_aside (task) VALUES ($1)`;

/** A success in a verified queue: the result and its adds wait for a verdict. An ordered group waits too. */
export async function askForVerdict(
  tx: Tx,
  task: Held,
  { result, adds = [], each, next }: Settlement & { kind: "done" },
): Promise<TaskState> {
  await dropClaim(tx, task);
  const { seq, queue, failures, fence, startedAt, worker } = task;
  announceTask(tx, "task.verifying", task, { worker });
  if (willStepAside(task)) {
    tx.send(STEP_ASIDE, seq);
    await freeGroup(tx, queue, task.groupKey!);
  }
  // The store adds it, so no limit applies: the result must be judged.
  const of = { id: tx.id(task.createdAt, seq), fence };
  const asking = await addChecked(tx, [verificationTask(queue.name, of)]);
  reportAdded(tx.batch.hint, asking);
  const asked = tx.place(asking[0]!.id)!.seq;
  const kept = adds.length > 0 ? encodeAdds(adds) : null;
  const costs = next ? JSON.stringify(next) : null;
  const attempt = [fence, startedAt, queue.id, failures, worker] as const;
  tx.send(INSERT, seq, asked, ...attempt, kept, each ?? false, costs, ...toColumns(result));
  tx.counters.count(queue, "verifying", 1);
  return "verifying";
}

/** The verifier's task ends, and so does the task it judged, unless that one waits for another verdict by now. */
export async function settleVerdict(
  tx: Tx,
  task: Held,
  verdict: Settlement & { kind: "verdict" },
): Promise<TaskState> {
  if ((await placesOf(tx, task.stepped ? [task.seq] : [])).size > 0)
    throw verdictOfStage(tx.id(task.createdAt, task.seq));
  const judged = await judgedUnder(tx, task, verdict.of);
  if (judged && verdict.accepted) await accept(tx, judged);
  if (judged && !verdict.accepted)
    await refuse(tx, judged, verdict.feedback, verdict.delay, verdict.keepSteps);
  await dropClaim(tx, task);
  return endDone(tx, task, null);
}

/** The task about which the claim's task asks, if the verdict names it. */
async function judgedUnder(
  tx: Tx,
  asking: Held,
  { id, fence }: Verified,
): Promise<VerifyingTask | undefined> {
  const [judged] = await findAsked(tx, [asking.seq]);
  return judged && judged.fence === fence && tx.id(judged.createdAt, judged.seq) === id ? judged : undefined;
}

async function accept(tx: Tx, task: VerifyingTask): Promise<void> {
  const { adds: text, each, next: costs } = task.pending;
  const result = fromColumns(task.pending.result, task.pending.result_bytes);
  const next = await plan(tx, task, {
    ...{ result, each },
    ...(costs !== null && { next: JSON.parse(costs) as NextCosts }),
  });
  // It was cancelled meanwhile.
  if (next === "over") return void (await endCancelled(tx, task));
  // To the subscriptions of this moment.
  const adds = [...(text === null ? [] : await fanOut(tx, decodeAdds(text))), ...(next?.tasks ?? [])];
  // They were checked at the ack, but a queue may have filled up since.
  await checkAdds(tx, adds);
  dropVerifying(tx, task);
  await endDone(tx, task, result);
  await continueRun(tx, task, result, next);
  reportAdded(tx.batch.hint, await addChecked(tx, adds));
}
