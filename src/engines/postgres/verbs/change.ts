import {
  againNote,
  checkChange,
  checkNewPayload,
  destinationOf,
  goesOnBlocking,
  type TaskChange,
  type TaskUpdate,
} from "../../../core/task/change.ts";
import { storedContentType } from "../../../core/task/add-rules.ts";
import { fromRank, rankOf } from "../../../core/task/task.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { appendLine } from "../flows/log.ts";
import { placesOf } from "../flows/run-place.ts";
import { withSteps } from "../flows/steps.ts";
import { changeRankInLine } from "../line/enter-line.ts";
import { findTask, type Found } from "../line/find-task.ts";
import { freeGroup, schedule, watchTtl, willStepAside } from "../line/line.ts";
import { promoteOne } from "../line/promote.ts";
import { lockPlace, takeOut } from "../line/take-out.ts";
import { toColumns } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";
import { bringBack } from "./dead.ts";
import { lastAttemptsOf } from "./inspect.ts";

/** The verb `change`: an operator changes a task, promotes it, or runs it again. */
export async function change(
  tx: Tx,
  { id, change: wanted }: Verbs["change"]["in"],
): Promise<Verbs["change"]["out"]> {
  for (;;) {
    const task = await findTask(tx, id);
    if (!task) throw taskNotFound(id);
    await tx.runs.hold([task.seq]);
    const ofRun = (await placesOf(tx, [task.seq])).has(task.seq);
    checkChange(wanted, { id, state: task.place.state, ofRun });
    const outcome =
      wanted.kind === "again"
        ? await runAgain(tx, task, wanted.fresh)
        : await changePending(tx, { ...task, stepped: ofRun || (await hasSteps(tx, task)) }, wanted);
    // Undefined: it moved between two statements.
    if (outcome) return outcome;
  }
}

async function hasSteps(tx: Tx, { seq }: Found): Promise<boolean> {
  return (await withSteps(tx, [seq])).has(seq);
}

type Answer = Promise<Verbs["change"]["out"] | undefined>;

// The attempt of a success is in its row of `ended`, which goes.
const INSERT_SUCCESS = `
  INSERT INTO dibs.attempt (task, fence, attempt, worker, started_at, ended_at, outcome)
  VALUES ($1, $2, $3, $4, $5, $6, 'done')`;

async function runAgain(tx: Tx, task: Found, fresh = false): Answer {
  const { seq, place } = task;
  const last = (await lastAttemptsOf(tx, [seq])).get(seq);
  if (!(await takeOut(tx, task))) return undefined;
  if (last && place.state === "done") {
    const { fence, attempt, worker, startedAt, endedAt } = last;
    tx.send(INSERT_SUCCESS, seq, fence, attempt, worker, startedAt, endedAt);
  }
  if (last) appendLine(tx, seq, { fence: last.fence, at: tx.now, text: againNote(place.state) });
  const states = await bringBack(tx, [task], { delayOf: () => 0, fresh });
  return { state: states.get(seq)!, changed: true };
}

async function changePending(tx: Tx, task: Found, wanted: Exclude<TaskChange, { kind: "again" }>): Answer {
  const { state } = task.place;
  const goes = destinationOf(wanted, state);
  if (wanted.kind === "update") checkNewPayload(wanted, task.queue.name, task.queue.policy);
  if (!(await lockPlace(tx, task))) return undefined;
  const isUpdated = wanted.kind === "update" && update(tx, task, wanted);
  if (goes.to === "stay") return { state, changed: isUpdated };
  await takeOut(tx, task);
  watchTtl(tx, task);
  if (goes.to === "line") return { state: await promoteOne(tx, task), changed: true };
  const { blocksGroup, groupKey, queue } = task;
  const blocks = goesOnBlocking(task, willStepAside(task));
  const scheduled = schedule(tx, { ...task, blocksGroup: blocks }, tx.now + goes.delay);
  if (blocksGroup && !blocks) await freeGroup(tx, queue, groupKey!);
  return { state: scheduled, changed: true };
}

const SET_DATA = `UPDATE dibs.task SET data = $1, bytes = $2, content_type = $3 WHERE seq = $4`;
const SET_PRIORITY = `UPDATE dibs.task SET priority = $1 WHERE seq = $2`;
const RANK_WAITING = `UPDATE dibs.waiting SET rank = $1 WHERE queue = $2 AND group_key = $3 AND pos = $4`;

/** Its row is locked. Returns whether it has changed something. */
function update(tx: Tx, task: Found, given: TaskUpdate): boolean {
  const { seq, place, queue } = task;
  if (given.data !== undefined) tx.send(SET_DATA, ...toColumns(given.data), storedContentType(given), seq);
  const { priority, urgent } = fromRank(task.rank);
  if (given.priority === undefined || given.priority === priority) return given.data !== undefined;
  const rank = rankOf({ priority: given.priority, urgent });
  tx.send(SET_PRIORITY, given.priority, seq);
  if (place.state === "ready") changeRankInLine(tx, place.table, { ...task, pos: place.pos }, rank);
  if (place.state === "waiting") tx.send(RANK_WAITING, rank, queue.id, task.groupKey, task.pos);
  task.rank = rank;
  return true;
}
