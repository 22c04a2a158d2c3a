import type { Verbs } from "../../../engine/engine.ts";
import { fitting, sizeOfRow } from "../../../core/answer/answer-size.ts";
import type { RunPart, RunRecord } from "../../../core/run/run.ts";
import type { TaskEnd } from "../../../core/task/task.ts";
import { runPart, type RunPartRow } from "../../../engine/task-records.ts";
import { bodyFrom } from "../statements/body.ts";
import { lastAttempt, readEnds, record } from "./inspect.ts";
import { findBySeq } from "../line/find-task.ts";
import { findRun, knownRun, type RunRow } from "../flows/runs.ts";
import { stateOfRun } from "../../../core/run/run-end.ts";
import type { Tx } from "../transaction/tx.ts";

/** What callers can see of runs: `run`, `runs`, and the ends of runs. */

const PARTS = `
  SELECT task, created_at, stage, part, state, started_at, ended_at FROM run_part
  WHERE run = ? AND task > ? ORDER BY task LIMIT 0 + ?`;

export function inspectRun(
  tx: Tx,
  { id, after, limit }: Verbs["run"]["in"],
): { run: RunRecord; parts: RunPart[]; next: number | null } {
  const run = knownRun(tx, id);
  const rows = tx.all<RunPartRow>(PARTS, run.id, after ?? 0, limit + 1);
  const page = rows.slice(0, limit);
  return {
    run: recordOf(tx, run),
    parts: page.flatMap((row) => {
      const task = () => record(tx, findBySeq(tx, row.task)!, "preview");
      return runPart(tx.id(row.created_at, row.task), run.pipeline, row, task) ?? [];
    }),
    next: rows.length > limit ? page.at(-1)!.task : null,
  };
}

// Ordered by id, which is the order of their beginnings. Runs of other pipelines are read and skipped.
// As stateOfRun in core/run/run-end.ts.
const STATE = `coalesce(state, CASE WHEN dead > 0 THEN 'dead' ELSE 'running' END)`;
const RUNS = `
  SELECT id, created_at, pipeline, stages, dead, state, ended_at FROM run
  WHERE pipeline = ? AND id < ? AND ${STATE} = coalesce(?, ${STATE}) ORDER BY id DESC LIMIT 0 + ?`;

export function listRuns(
  tx: Tx,
  { pipeline, state, after = Number.MAX_SAFE_INTEGER, limit }: Verbs["runs"]["in"],
): { runs: RunRecord[]; next: number | null } {
  const rows = tx.all<RunRow>(RUNS, pipeline, after, state ?? null, limit + 1);
  const page = rows.slice(0, limit).map((row) => recordOf(tx, row));
  const runs = fitting(page, sizeOfRow);
  return { runs, next: runs.length < rows.length ? rows[runs.length - 1]!.id : null };
}

function recordOf(tx: Tx, run: RunRow): RunRecord {
  const { pipeline, created_at: createdAt, ended_at: endedAt } = run;
  const id = tx.id(createdAt, run.id);
  return { id, pipeline, stages: tx.stages.parse(run.stages), state: stateOfRun(run), createdAt, endedAt };
}

const DEAD = `
  SELECT run_part.task FROM run_part CROSS JOIN dead ON dead.task = run_part.task
  WHERE run = ? ORDER BY part, run_part.task LIMIT 1`;

export function endsOfRuns(tx: Tx, ids: string[]): (TaskEnd | "pending" | "missing")[] {
  return readEnds(ids, (id) => {
    const run = findRun(tx, id);
    if (!run) return "missing";
    const state = stateOfRun(run);
    if (state === "running") return "pending";
    // The first of several, in order.
    const dead = state === "dead" ? tx.get<{ task: number }>(DEAD, run.id) : undefined;
    const error = dead ? lastAttempt(tx, dead.task)!.error : null;
    return { id, state, result: bodyFrom(run.result), error };
  });
}
