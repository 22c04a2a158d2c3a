import type { RunSignal } from "../../../core/record/record.ts";
import type { Body } from "../../../core/task/task.ts";
import { lookUp, rowsBy } from "../statements/look-up.ts";
import { fromColumns, fromText, numbers, toColumns, toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** Signals for all tasks of a run, whose row is locked. `verbs/park.ts` writes them and gives them to tasks. */

const STORE = `INSERT INTO dibs.run_signal (run, name, value, bytes) VALUES ($1, $2, $3, $4)`;
const FORGET = `DELETE FROM dibs.run_signal WHERE run = $1`;

interface SignalRow {
  run: number;
  name: string;
  value: string | null;
  bytes: Uint8Array | null;
}

export function storeRunSignal(tx: Tx, run: number, name: string, value: Body | null): void {
  tx.send(STORE, run, toText(name), ...toColumns(value));
}

/** Its run has ended. */
export function forgetSignals(tx: Tx, run: number): void {
  tx.send(FORGET, run);
}

export const SIGNALS = `SELECT run, name, value, bytes FROM dibs.run_signal WHERE run = ANY ($1::int8[]) ORDER BY run, name`;

/** By run. */
export function signalsFrom(rows: SignalRow[]): Map<number, RunSignal[]> {
  const byRun = Map.groupBy(rows, ({ run }) => run);
  return new Map(
    [...byRun].map(([run, some]) => [
      run,
      some.map(({ name, value, bytes }) => ({ name: fromText(name), value: fromColumns(value, bytes) })),
    ]),
  );
}

export async function signalsOfRuns(tx: Tx, runs: readonly number[]): Promise<Map<number, RunSignal[]>> {
  return signalsFrom(await tx.all<SignalRow>(SIGNALS, numbers(runs)));
}

const OF_TASK = `
  SELECT run_signal.* FROM ${rowsBy("run_part", { task: "$1::int8" })} AS run_part
  CROSS JOIN ${lookUp("run_signal", "run_signal.run = run_part.run AND run_signal.name = $2")}`;

/** A signal of the task's run; undefined if it has not come. */
export async function runSignalFor(tx: Tx, seq: number, name: string): Promise<Body | null | undefined> {
  const row = await tx.get<SignalRow>(OF_TASK, seq, toText(name));
  return row && fromColumns(row.value, row.bytes);
}

const PARKED = `
  SELECT run_part.task FROM ${rowsBy("run_part", { run: "$1::int8" }, { columns: "task" })} AS run_part
  CROSS JOIN ${lookUp("task", "task.seq = run_part.task", { columns: "queue, coalesce(pos, seq) AS pos" })}
  CROSS JOIN ${lookUp("scheduled", { queue: "task.queue", pos: "task.pos" }, { columns: "signal" })}
  WHERE scheduled.signal = $2 ORDER BY run_part.task`;

/** The tasks of the run that are parked for a signal. */
export async function parkedFor(tx: Tx, run: number, name: string): Promise<number[]> {
  return (await tx.all<{ task: number }>(PARKED, run, toText(name))).map(({ task }) => task);
}
