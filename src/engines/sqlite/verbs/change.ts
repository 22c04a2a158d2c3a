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
import { fromRank, rankOf, type TaskState } from "../../../core/task/task.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { appendLine } from "../flows/log.ts";
import { isPartOfRun } from "../flows/runs.ts";
import { changeRankInLine, markInLine } from "../line/enter-line.ts";
import { findTask, type Found, takeOut } from "../line/find-task.ts";
import { freeGroup, INSERT_ATTEMPT, schedule, watchTtl, willStepAside } from "../line/line.ts";
import { promote } from "../line/sweep.ts";
import type { Tx } from "../transaction/tx.ts";
import { bringBack } from "./dead.ts";
import { lastAttempt } from "./inspect.ts";

/** The verb `change`: an operator changes a task, promotes it, or runs it again. */
export function change(tx: Tx, { id, change: wanted }: Verbs["change"]["in"]): Verbs["change"]["out"] {
  const task = findTask(tx, id);
  if (!task) throw taskNotFound(id);
  checkChange(wanted, { id, state: task.place.state, ofRun: isPartOfRun(tx, task.seq) });
  if (wanted.kind === "again") return { state: runAgain(tx, task, wanted.fresh), changed: true };
  return changePending(tx, task, wanted);
}

function runAgain(tx: Tx, task: Found, fresh = false): TaskState {
  const { seq, place } = task;
  const last = lastAttempt(tx, seq);
  // The attempt of a success is in its row of `ended`, which goes.
  if (last && place.state === "done") {
    const { fence, attempt, worker, startedAt, endedAt, outcome } = last;
    tx.run(INSERT_ATTEMPT, seq, fence, attempt, worker, startedAt, endedAt, outcome, null, null, null, null);
  }
  if (last) appendLine(tx, seq, { fence: last.fence, at: tx.now, text: againNote(place.state) });
  return bringBack(tx, task, { delay: 0, fresh });
}

function changePending(
  tx: Tx,
  task: Found,
  wanted: Exclude<TaskChange, { kind: "again" }>,
): Verbs["change"]["out"] {
  const { state } = task.place;
  const isUpdated = wanted.kind === "update" && update(tx, task, wanted);
  const goes = destinationOf(wanted, state);
  if (goes.to === "stay") return { state, changed: isUpdated };
  takeOut(tx, task);
  watchTtl(tx, task);
  if (goes.to === "line") return { state: promote(tx, task), changed: true };
  const { blocksGroup, groupKey, queue } = task;
  const blocks = goesOnBlocking(task, willStepAside(task));
  const scheduled = schedule(tx, { ...task, blocksGroup: blocks }, tx.now + goes.delay);
  if (blocksGroup && !blocks) freeGroup(tx, queue, groupKey!);
  return { state: scheduled, changed: true };
}

// Both rewrite the whole row with its payload.
const SET_DATA = `UPDATE task SET data = ?, content_type = ? WHERE seq = ?`;
const SET_PRIORITY = `UPDATE task SET priority = ? WHERE seq = ?`;
const RANK_WAITING = `UPDATE waiting SET rank = ? WHERE queue = ? AND group_key = ? AND pos = ?`;

/** Returns whether it has changed something. */
function update(tx: Tx, task: Found, given: TaskUpdate): boolean {
  const { seq, place, queue } = task;
  checkNewPayload(given, queue.name, queue.policy);
  if (given.data !== undefined) {
    tx.run(SET_DATA, given.data, storedContentType(given), seq);
    if (place.state === "ready")
      markInLine(tx, "options", place.line.table, { ...task, pos: place.line.pos });
  }
  const { priority, urgent } = fromRank(task.rank);
  if (given.priority === undefined || given.priority === priority) return given.data !== undefined;
  const rank = rankOf({ priority: given.priority, urgent });
  tx.run(SET_PRIORITY, 0 - rank, seq);
  if (place.state === "ready") changeRankInLine(tx, place.line.table, { ...task, pos: place.line.pos }, rank);
  if (place.state === "waiting") tx.run(RANK_WAITING, rank, queue.id, task.groupKey, task.pos);
  task.rank = rank;
  return true;
}
