import { isChildrenSignal } from "../../../core/handler/children-signal.ts";
import { byteLength, checkStepRoom, checkStepSizes } from "../../../core/input/limits.ts";
import { stateOfRun } from "../../../core/run/run-end.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import { type Body, isEnd, type Step, type TaskState } from "../../../core/task/task.ts";
import type { Settlement } from "../../../engine/settlement.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { heldTask } from "../line/held.ts";
import { NEVER } from "../../../core/task/transition.ts";
import { announceTask, closeAttempt, type Held, returnToLine, type TransitionTask } from "../line/line.ts";
import { isRowBy } from "../statements/look-up.ts";
import { findBySeq, findTask, type Found } from "../line/find-task.ts";
import { awaitsChildren } from "../flows/children.ts";
import { parkedFor, runSignalFor, signalsOfRuns, storeRunSignal } from "../flows/run-signals.ts";
import { knownRun } from "../flows/runs.ts";
import { keepStep, stepsOf } from "../flows/steps.ts";
import { markSteppedInLine } from "../line/enter-line.ts";
import { lockPlace, takeOut } from "../line/take-out.ts";
import { toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Steps, signals and parking. A transaction that stores a step or a signal locks the task's row in its state until the
 * commit. So a transaction that parks or claims the task at the same time sees the signal.
 */

export const MARK_CLAIM = `UPDATE dibs.claim SET special = true WHERE task = $1 AND NOT special`;
// As in the line (enter-line.ts): a sweep that has found the row reads it again, and sees the signal.
const REPLACE_SCHEDULED = `
  WITH old AS (
    DELETE FROM dibs.scheduled WHERE ${isRowBy("scheduled", { queue: "$1", pos: "$2::int8" })} RETURNING *)
  INSERT INTO dibs.scheduled SELECT * FROM old`;

export async function step(tx: Tx, { id, fence, name, value }: Verbs["step"]["in"]): Promise<null> {
  const task = await heldTask(tx, id, fence);
  await checkRoom(tx, task.seq, "step", name, value);
  keepStep(tx, task.seq, "step", name, value);
  tx.send(MARK_CLAIM, task.seq);
  return null;
}

const SIZE = `
  SELECT count(*)::int4 AS count, coalesce(sum(octet_length(value)), 0)::int8 + coalesce(sum(octet_length(bytes)), 0)::int8 AS bytes
  FROM dibs.step WHERE task = $1 AND kind NOT IN ('feedback', 'child') AND (kind, name) <> ($2, $3)`;

/** Counts the other steps. One of the same kind and name is replaced. */
async function checkRoom(
  tx: Tx,
  seq: number,
  kind: Step["kind"],
  name: string,
  value: Body | null,
): Promise<void> {
  const others = (await tx.get<{ count: number; bytes: number }>(SIZE, seq, kind, toText(name)))!;
  checkStepSizes(others.count + 1, others.bytes + (value === null ? 0 : byteLength(value)));
}

export async function steps(tx: Tx, { id }: Verbs["steps"]["in"]): Promise<Step[]> {
  const task = await findTask(tx, id);
  if (!task) throw taskNotFound(id);
  return stepsOf(tx, task.seq);
}

export async function park(
  tx: Tx,
  task: Held,
  { signal, timeout }: Settlement & { kind: "park" },
): Promise<TaskState> {
  await closeAttempt(tx, task, "parked", null);
  announceTask(tx, "task.parked", task, { worker: task.worker, detail: signal });
  const isOver = isChildrenSignal(signal) ? await areEnded(tx, task, signal) : await hears(tx, task, signal);
  if (isOver) return returnToLine(tx, { ...task, stepped: true }, { delay: 0 });
  return returnToLine(tx, task, { delay: timeout ?? NEVER, signal });
}

const HEARD = `SELECT 1 FROM dibs.step WHERE task = $1 AND kind IN ('signal', 'timeout') AND name = $2`;

/** Whether the signal has come, or its timeout. */
async function hasHeard(tx: Tx, seq: number, name: string): Promise<boolean> {
  return (await tx.get(HEARD, seq, toText(name))) !== undefined;
}

/** Whether the awaited children have ended, or the wait for them has timed out. From here on the family is locked. */
async function areEnded(tx: Tx, { seq }: Held, signal: string): Promise<boolean> {
  await tx.runs.recheck([seq]);
  return (await hasHeard(tx, seq, signal)) || !(await awaitsChildren(tx, seq, signal));
}

/** Whether the signal or its timeout has come, to the task or to its run, which is locked. */
async function hears(tx: Tx, task: Held, name: string): Promise<boolean> {
  if (await hasHeard(tx, task.seq, name)) return true;
  if (task.stepped === false) return false;
  await tx.runs.hold([task.seq]);
  const value = await runSignalFor(tx, task.seq, name);
  if (value !== undefined) receive(tx, task, name, value);
  return value !== undefined;
}

/** The task's row in its state is locked. */
function receive(tx: Tx, task: TransitionTask, name: string, value: Body | null): void {
  keepStep(tx, task.seq, "signal", name, value);
  announceTask(tx, "task.signalled", task, { detail: name });
}

export async function signal(
  tx: Tx,
  { id, name, value, of }: Verbs["signal"]["in"],
): Promise<Verbs["signal"]["out"]> {
  if (of === "runs") return signalRun(tx, id, name, value);
  await tx.runs.hold([tx.place(id)?.seq ?? 0]);
  for (;;) {
    const [task, heard] = await allAnswered([findTask(tx, id), hasHeard(tx, tx.place(id)?.seq ?? 0, name)]);
    if (!task) throw taskNotFound(id);
    const { place } = task;
    const { state } = place;
    if (isEnd(state) || heard) return { kept: false, state };
    // It moved between the two statements.
    if (!(await lockPlace(tx, task))) continue;
    if (await hasHeard(tx, task.seq, name)) return { kept: false, state };
    await checkRoom(tx, task.seq, "signal", name, value);
    receive(tx, task, name, value);
    return { kept: true, state: await wake(tx, task, name) };
  }
}

async function wake(tx: Tx, task: Found, name: string): Promise<TaskState> {
  const { place, seq, queue, rank, pos } = task;
  if (place.state === "parked" && place.signal === name) {
    await takeOut(tx, task);
    return returnToLine(tx, { ...task, stepped: true }, { delay: 0 });
  }
  if (place.state === "claimed") tx.send(MARK_CLAIM, seq);
  if (place.state === "scheduled") tx.send(REPLACE_SCHEDULED, queue.id, pos);
  if (place.state === "ready") markSteppedInLine(tx, place.table, { queue, rank, pos: place.pos });
  return place.state;
}

async function signalRun(
  tx: Tx,
  id: string,
  name: string,
  value: Body | null,
): Promise<Verbs["signal"]["out"]> {
  await tx.runs.holdRun((await knownRun(tx, id)).id);
  const run = await knownRun(tx, id);
  const signals = (await signalsOfRuns(tx, [run.id])).get(run.id) ?? [];
  if (run.state !== null || signals.some((each) => each.name === name))
    return { kept: false, state: stateOfRun(run) };
  checkStepRoom([...signals, { value }]);
  storeRunSignal(tx, run.id, name, value);
  for (const seq of await parkedFor(tx, run.id, name)) {
    // With the run locked, only its timeout or a signal of its own can have taken it out.
    const task = await findBySeq(tx, seq);
    if (task?.place.state !== "parked" || !(await takeOut(tx, task))) continue;
    receive(tx, task, name, value);
    await returnToLine(tx, { ...task, stepped: true }, { delay: 0 });
    // It had outlived its time-to-live, which ended the run.
    if (tx.batch.endedRuns.includes(run.id)) break;
  }
  return { kept: true, state: stateOfRun(await knownRun(tx, id)) };
}
