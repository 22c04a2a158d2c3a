import type { Verbs } from "../../../engine/engine.ts";
import { fitting, sizeOfEnd, sizeOfRow } from "../../../core/answer/answer-size.ts";
import type { RunPart, RunRecord, Stage } from "../../../core/run/run.ts";
import type { TaskEnd } from "../../../core/task/task.ts";
import { runPart, type RunPartRow } from "../../../engine/task-records.ts";
import { lastAttemptsOf, records } from "./inspect.ts";
import { lookUp } from "../statements/look-up.ts";
import { findMany } from "../line/find-task.ts";
import { findRuns, knownRun, type RunRow } from "../flows/runs.ts";
import { stateOfRun } from "../../../core/run/run-end.ts";
import { fromColumns, numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** What callers can see of runs: `run`, `runs`, and the ends of runs. */

const PARTS = `
  SELECT task, created_at, stage, part, state, started_at, ended_at FROM dibs.run_part
  WHERE run = $1 AND task > $2 ORDER BY task LIMIT $3`;

export async function inspectRun(
  tx: Tx,
  { id, after, limit }: Verbs["run"]["in"],
): Promise<{ run: RunRecord; parts: RunPart[]; next: number | null }> {
  const run = await knownRun(tx, id);
  const rows = await tx.all<RunPartRow>(PARTS, run.id, after ?? 0, limit + 1);
  const page = rows.slice(0, limit);
  const pending = page.filter(({ state }) => state === null).map(({ task }) => task);
  const tasks = new Map(
    (await records(tx, await findMany(tx, pending), "preview")).map((task) => [task.id, task]),
  );
  return {
    run: recordOf(tx, run),
    parts: page.flatMap((row) => {
      const partId = tx.id(row.created_at, row.task);
      return runPart(partId, run.pipeline, row, () => tasks.get(partId)) ?? [];
    }),
    next: rows.length > limit ? page.at(-1)!.task : null,
  };
}

// Ordered by id, which is the order of their beginnings. Runs of other pipelines are read and skipped.
// As stateOfRun in core/run/run-end.ts.
const STATE = `coalesce(state, CASE WHEN dead > 0 THEN 'dead' ELSE 'running' END)`;
const RUNS = `
  SELECT id, created_at, pipeline, stages, dead, state, ended_at FROM dibs.run
  WHERE pipeline = $1 AND id < $2 AND ${STATE} = coalesce($4::text, ${STATE}) ORDER BY id DESC LIMIT $3`;

export async function listRuns(
  tx: Tx,
  { pipeline, state, after = Number.MAX_SAFE_INTEGER, limit }: Verbs["runs"]["in"],
): Promise<{ runs: RunRecord[]; next: number | null }> {
  const rows = await tx.all<RunRow>(RUNS, pipeline, after, limit + 1, state ?? null);
  const page = rows.slice(0, limit).map((row) => recordOf(tx, row));
  const runs = fitting(page, sizeOfRow);
  return { runs, next: runs.length < rows.length ? rows[runs.length - 1]!.id : null };
}

function recordOf(tx: Tx, run: RunRow): RunRecord {
  const { pipeline, created_at: createdAt, ended_at: endedAt } = run;
  const id = tx.id(createdAt, run.id);
  const stages = JSON.parse(run.stages) as Stage[];
  return { id, pipeline, stages, state: stateOfRun(run), createdAt, endedAt };
}

const DEAD = `
  SELECT DISTINCT ON (run) run, run_part.task
  FROM dibs.run_part CROSS JOIN ${lookUp("dead", { task: "run_part.task" })}
  WHERE run = ANY ($1::int8[]) ORDER BY run, part, run_part.task`;

/** Results are read with them, so many at a time until the answer is full. */
const AT_ONCE = 64;

export async function endsOfRuns(tx: Tx, ids: string[]): Promise<(TaskEnd | "pending" | "missing")[]> {
  const ends: (TaskEnd | "pending" | "missing")[] = [];
  while (ends.length < ids.length) {
    const next = await someEndsOfRuns(tx, ids.slice(ends.length, ends.length + AT_ONCE));
    const fit = fitting([...ends, ...next], sizeOfEnd);
    const isFull = fit.length < ends.length + next.length;
    ends.push(...fit.slice(ends.length));
    if (isFull) break;
  }
  return ends;
}

async function someEndsOfRuns(tx: Tx, ids: string[]): Promise<(TaskEnd | "pending" | "missing")[]> {
  const runs = await findRuns(tx, ids);
  const dead = [...runs.values()].filter((run) => stateOfRun(run) === "dead").map(({ id }) => id);
  // The first of several, in order.
  const firsts = dead.length === 0 ? [] : await tx.all<{ run: number; task: number }>(DEAD, numbers(dead));
  const attempts = await lastAttemptsOf(
    tx,
    firsts.map(({ task }) => task),
  );
  return ids.map((id) => {
    const run = runs.get(id);
    if (!run) return "missing";
    const state = stateOfRun(run);
    if (state === "running") return "pending";
    const result = fromColumns(run.result, run.result_bytes);
    if (state !== "dead") return { id, state, result, error: null };
    const first = firsts.find((each) => each.run === run.id);
    const last = first && attempts.get(first.task);
    // None if its dead tasks were redriven or discarded between two statements.
    return last ? { id, state, result, error: last.error } : "pending";
  });
}
