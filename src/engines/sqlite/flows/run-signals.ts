import type { RunSignal } from "../../../core/record/record.ts";
import type { Body } from "../../../core/task/task.ts";
import { bodyFrom } from "../statements/body.ts";
import type { Tx } from "../transaction/tx.ts";

/** Signals for all tasks of a run. `verbs/park.ts` writes them and gives them to tasks. */

const STORE = `INSERT INTO run_signal (run, name, value) VALUES (?, ?, ?)`;
const SIGNALS = `SELECT name, value FROM run_signal WHERE run = ? ORDER BY name`;

export const FORGET_SIGNALS = `DELETE FROM run_signal WHERE run = ?`;

export function storeRunSignal(tx: Tx, run: number, name: string, value: Body | null): void {
  tx.run(STORE, run, name, value);
}

export function signalsOfRun(tx: Tx, run: number): RunSignal[] {
  return tx.all<RunSignal>(SIGNALS, run).map(({ name, value }) => ({ name, value: bodyFrom(value) }));
}

const OF_TASK = `
  SELECT run_signal.value FROM run_part CROSS JOIN run_signal ON run_signal.run = run_part.run AND name = ?
  WHERE task = ?`;

/** A signal of the task's run; undefined if it has not come. */
export function runSignalFor(tx: Tx, seq: number, name: string): Body | null | undefined {
  const row = tx.get<{ value: Body | null }>(OF_TASK, name, seq);
  return row && bodyFrom(row.value);
}

const PARKED = `
  SELECT run_part.task FROM run_part CROSS JOIN task ON task.seq = run_part.task
  CROSS JOIN scheduled ON scheduled.queue = task.queue AND scheduled.pos = coalesce(task.pos, task.seq)
  WHERE run = ? AND signal = ? ORDER BY run_part.task`;

/** The tasks of the run that are parked for a signal. */
export function parkedFor(tx: Tx, run: number, name: string): number[] {
  return tx.all<{ task: number }>(PARKED, run, name).map(({ task }) => task);
}
