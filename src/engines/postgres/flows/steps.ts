import { SLEEP_PREFIX } from "../../../core/handler/sleep-signal.ts";
import type { Body, Step } from "../../../core/task/task.ts";
import type { RunPlace } from "../../../core/run/run.ts";
import { rowsOf } from "../statements/look-up.ts";
import { type OfRun, placeFrom, RUN_OF } from "./run-place.ts";
import { fromColumns, fromText, toColumns, toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** Stored steps and signals of tasks. `verbs/park.ts` writes them, claims read them. */

export const DELETE_STEPS = `DELETE FROM dibs.step WHERE task = $1`;
/** Steps of its handler, and its children. Signals stay. */
export const DELETE_TAKEN = `DELETE FROM dibs.step WHERE task = $1 AND kind IN ('step', 'child')`;
/** Waits that were in vain begin again. A sleep that is over stays over. */
export const DELETE_ALL_TIMEOUTS = `
  DELETE FROM dibs.step
  WHERE task = ANY ($1::int8[]) AND kind = 'timeout' AND name NOT LIKE '${SLEEP_PREFIX}%'`;
export const DELETE_ALL_STEPS = `DELETE FROM dibs.step WHERE task = ANY ($1::int8[])`;

const KEEP = `
  INSERT INTO dibs.step (task, kind, name, value, bytes) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (task, kind, name) DO UPDATE SET value = excluded.value, bytes = excluded.bytes`;

/** The caller has locked the task's row in its state. */
export function keepStep(
  tx: Tx,
  seq: number,
  kind: Step["kind"] | "feedback",
  name: string,
  value: Body | null,
): void {
  tx.send(KEEP, seq, kind, toText(name), ...toColumns(value));
}

interface StepRow {
  kind: Step["kind"];
  name: string;
  value: string | null;
  bytes: Uint8Array | null;
}

const STEPS = `SELECT kind, name, value, bytes FROM dibs.step WHERE task = $1 AND kind <> 'feedback'`;

/** Sorted by kind, then by name. */
export async function stepsOf(tx: Tx, seq: number): Promise<Step[]> {
  const rows = await tx.all<StepRow>(STEPS, seq);
  const steps = rows.map(({ kind, name, value, bytes }) => ({
    kind,
    name: fromText(name),
    value: fromColumns(value, bytes),
  }));
  const order = ({ kind, name }: Step): string => `${kind} ${name}`;
  return steps.sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

const STEPPED = `
  SELECT task FROM dibs.step WHERE task = ANY ($1::int8[])
  UNION SELECT task FROM ${rowsOf("run_part", "$1::int8[]")} AS run_part
  UNION SELECT task FROM ${rowsOf("child", "$1::int8[]")} AS child`;

/** Which of the tasks have steps or signals, are part of a run, or are children. */
export async function withSteps(tx: Tx, seqs: readonly number[]): Promise<Set<number>> {
  return new Set((await tx.all<{ task: number }>(STEPPED, [...seqs])).map(({ task }) => task));
}

/** Column of a claim's statement: steps, signals, feedback and run of a special task, as JSON; null for most tasks. */
export const HANDLER_STATE = (special: string, task: string): string => `
  CASE WHEN ${special} THEN (
    SELECT json_build_array(bool_or(kind <> 'feedback'), max(value) FILTER (WHERE kind = 'feedback'), ${RUN_OF(task)})
    FROM dibs.step WHERE step.task = ${task}) END`;

export type HandlerState = [stepped: boolean | null, feedback: string | null, run: OfRun | null];

export function handlerStateFrom(
  tx: Tx,
  left: HandlerState | null,
): { stepped?: true; feedback?: string; run?: RunPlace } {
  if (left === null) return {};
  const [stepped, feedback, run] = left;
  return {
    ...(stepped && { stepped: true as const }),
    ...(feedback !== null && { feedback: fromText(feedback) }),
    ...(run && { run: placeFrom(tx, run) }),
  };
}
