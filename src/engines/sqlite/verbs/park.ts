import { byteLength, LIMITS, tooManySteps } from "../../../core/limits.ts";
import { taskNotFound } from "../../../core/task-not-found.ts";
import { type Body, isEnd, type Step, type TaskState } from "../../../core/task.ts";
import { NEVER } from "../../../core/transition.ts";
import type { Settlement } from "../../../engine/settlement.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { bodyFrom } from "../statements/body.ts";
import { markInLine } from "../line/enter-line.ts";
import { heldTask } from "../line/held.ts";
import { announceTask, closeAttempt, type Held, returnToLine } from "../line/line.ts";
import { findTask, type Found, takeOut } from "../line/find-task.ts";
import { STEPPED } from "../statements/special.ts";
import { keepStep } from "../flows/steps.ts";
import type { Tx } from "../transaction/tx.ts";

/** Steps, signals and parking. */

const MARK_CLAIM = `UPDATE claim SET special = special | ${STEPPED} WHERE task = ?`;
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
  WHERE task = ? AND kind <> 'feedback' AND (kind, name) <> (?, ?)`;

/** Counts the other steps. One of the same kind and name is replaced. */
function checkRoom(tx: Tx, seq: number, name: string, value: Body | null, kind: Step["kind"] = "step"): void {
  const others = tx.get<{ count: number; bytes: number }>(SIZE, seq, kind, name)!;
  const count = others.count + 1;
  const bytes = others.bytes + (value === null ? 0 : byteLength(value));
  if (count > LIMITS.steps || bytes > LIMITS.allStepBytes) throw tooManySteps(count, bytes);
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
  if (hasHeard(tx, task.seq, signal)) return returnToLine(tx, task, { delay: 0 });
  return returnToLine(tx, task, { delay: timeout ?? NEVER, signal });
}

const HEARD = `SELECT 1 FROM step WHERE task = ? AND kind IN ('signal', 'timeout') AND name = ?`;

/** Whether the signal has come, or its timeout. */
function hasHeard(tx: Tx, seq: number, name: string): boolean {
  return tx.get(HEARD, seq, name) !== undefined;
}

export function signal(
  tx: Tx,
  { id, name, value }: Verbs["signal"]["in"],
): { kept: boolean; state: TaskState } {
  const task = knownTask(tx, id);
  const { place } = task;
  const { state } = place;
  if (isEnd(state) || hasHeard(tx, task.seq, name)) return { kept: false, state };
  checkRoom(tx, task.seq, name, value, "signal");
  keepStep(tx, task.seq, "signal", name, value);
  announceTask(tx, "task.signalled", task, { detail: name });
  if (place.state === "parked" && place.signal === name) {
    takeOut(tx, task);
    return { kept: true, state: returnToLine(tx, task, { delay: 0 }) };
  }
  if (place.state === "claimed") tx.run(MARK_CLAIM, task.seq);
  if (place.state === "verifying") tx.run(MARK_VERIFYING, task.seq);
  if (place.state === "ready") markInLine(tx, "stepped", place.line.table, { ...task, pos: place.line.pos });
  return { kept: true, state };
}
