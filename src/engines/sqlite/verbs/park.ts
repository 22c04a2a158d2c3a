import { isChildrenSignal } from "../../../core/handler/children-signal.ts";
import { byteLength, checkStepRoom, checkStepSizes } from "../../../core/input/limits.ts";
import { stateOfRun } from "../../../core/run/run-end.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import { type Body, isEnd, type Step, type TaskState } from "../../../core/task/task.ts";
import { NEVER } from "../../../core/task/transition.ts";
import type { Settlement } from "../../../engine/settlement.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { bodyFrom } from "../statements/body.ts";
import { markInLine } from "../line/enter-line.ts";
import { heldTask } from "../line/held.ts";
import { announceTask, closeAttempt, type Held, returnToLine, type TransitionTask } from "../line/line.ts";
import { findBySeq, findTask, type Found, takeOut } from "../line/find-task.ts";
import { STEPPED } from "../statements/special.ts";
import { awaitsChildren } from "../flows/children.ts";
import { parkedFor, runSignalFor, signalsOfRun, storeRunSignal } from "../flows/run-signals.ts";
import { knownRun } from "../flows/runs.ts";
import { keepStep } from "../flows/steps.ts";
import type { Tx } from "../transaction/tx.ts";

/** Steps, signals and parking. */

export const MARK_CLAIM = `UPDATE claim SET special = special | ${STEPPED} WHERE task = ?`;
const MARK_VERIFYING = `UPDATE verifying SET special = special | ${STEPPED} WHERE task = ?`;

export function step(tx: Tx, { id, fence, name, value }: Verbs["step"]["in"]): null {
  const task = heldTask(tx, id, fence);
  checkRoom(tx, task.seq, name, value);
  keepStep(tx, task.seq, "step", name, value);
  tx.run(MARK_CLAIM, task.seq);
  return null;
}

const SIZE = `
  SELECT count(*) AS count, coalesce(sum(octet_length(value)), 0) AS bytes FROM step
  WHERE task = ? AND kind NOT IN ('feedback', 'child') AND (kind, name) <> (?, ?)`;

/** Counts the other steps. One of the same kind and name is replaced. */
function checkRoom(tx: Tx, seq: number, name: string, value: Body | null, kind: Step["kind"] = "step"): void {
  const others = tx.get<{ count: number; bytes: number }>(SIZE, seq, kind, name)!;
  checkStepSizes(others.count + 1, others.bytes + (value === null ? 0 : byteLength(value)));
}

const STEPS = `SELECT kind, name, value FROM step WHERE task = ? AND kind <> 'feedback' ORDER BY kind || ' ' || name`;

export function steps(tx: Tx, { id }: Verbs["steps"]["in"]): Step[] {
  const { seq } = knownTask(tx, id);
  return tx.all<Step>(STEPS, seq).map((row) => ({ ...row, value: bodyFrom(row.value) }));
}

function knownTask(tx: Tx, id: string): Found {
  const task = findTask(tx, id);
  if (!task) throw taskNotFound(id);
  return task;
}

export function park(tx: Tx, task: Held, { signal, timeout }: Settlement & { kind: "park" }): TaskState {
  closeAttempt(tx, task, "parked", null);
  announceTask(tx, "task.parked", task, { worker: task.worker, detail: signal });
  const isOver = isChildrenSignal(signal)
    ? hasHeard(tx, task.seq, signal) || !awaitsChildren(tx, task.seq, signal)
    : hears(tx, task, signal);
  if (isOver) return returnToLine(tx, task, { delay: 0 });
  return returnToLine(tx, task, { delay: timeout ?? NEVER, signal });
}

const HEARD = `SELECT 1 FROM step WHERE task = ? AND kind IN ('signal', 'timeout') AND name = ?`;

/** Whether the signal has come, or its timeout. */
function hasHeard(tx: Tx, seq: number, name: string): boolean {
  return tx.get(HEARD, seq, name) !== undefined;
}

/** Whether the signal or its timeout has come, to the task or to its run. */
function hears(tx: Tx, task: Held, name: string): boolean {
  if (hasHeard(tx, task.seq, name)) return true;
  const value = task.ofRun === false ? undefined : runSignalFor(tx, task.seq, name);
  if (value !== undefined) receive(tx, task, name, value);
  return value !== undefined;
}

function receive(tx: Tx, task: TransitionTask, name: string, value: Body | null): void {
  keepStep(tx, task.seq, "signal", name, value);
  announceTask(tx, "task.signalled", task, { detail: name });
}

export function signal(tx: Tx, { id, name, value, of }: Verbs["signal"]["in"]): Verbs["signal"]["out"] {
  if (of === "runs") return signalRun(tx, id, name, value);
  const task = knownTask(tx, id);
  const { place } = task;
  const { state } = place;
  if (isEnd(state) || hasHeard(tx, task.seq, name)) return { kept: false, state };
  checkRoom(tx, task.seq, name, value, "signal");
  receive(tx, task, name, value);
  if (place.state === "parked" && place.signal === name) {
    takeOut(tx, task);
    return { kept: true, state: returnToLine(tx, task, { delay: 0 }) };
  }
  if (place.state === "claimed") tx.run(MARK_CLAIM, task.seq);
  if (place.state === "verifying") tx.run(MARK_VERIFYING, task.seq);
  if (place.state === "ready") markInLine(tx, "stepped", place.line.table, { ...task, pos: place.line.pos });
  return { kept: true, state };
}

function signalRun(tx: Tx, id: string, name: string, value: Body | null): Verbs["signal"]["out"] {
  const run = knownRun(tx, id);
  const signals = signalsOfRun(tx, run.id);
  if (run.state !== null || signals.some((each) => each.name === name))
    return { kept: false, state: stateOfRun(run) };
  checkStepRoom([...signals, { value }]);
  storeRunSignal(tx, run.id, name, value);
  for (const seq of parkedFor(tx, run.id, name)) {
    const task = findBySeq(tx, seq)!;
    receive(tx, task, name, value);
    takeOut(tx, task);
    returnToLine(tx, task, { delay: 0 });
    // It had outlived its time-to-live, which ended the run.
    if (tx.batch.endedRuns.includes(run.id)) break;
  }
  return { kept: true, state: stateOfRun(knownRun(tx, id)) };
}
