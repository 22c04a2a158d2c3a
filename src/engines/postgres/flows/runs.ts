import type { Verbs } from "../../../engine/engine.ts";
import {
  countsFrom,
  countsText,
  firstCounts,
  type RunState,
  type RunTask,
  type Stage,
} from "../../../core/run/run.ts";
import { formatPart, parsePart, type PartResult } from "../../../core/run/run-part.ts";
import { neededResults, type Plan, planNextStage } from "../../../core/run/next-stage.ts";
import type { Success } from "../../../core/run/run-success.ts";
import { pastRetention } from "../../../core/task/retention.ts";
import { cancelsRest, stateOfRun } from "../../../core/run/run-end.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import { type Body, type EndState, fromRank, type Headers, type NewTask } from "../../../core/task/task.ts";
import type { Held, TransitionTask } from "../line/line.ts";
import { keepResults } from "./children.ts";
import { forgetSignals } from "./run-signals.ts";
import { isAmong, isRowBy, lookUp, rowsBy, rowsOf, TASK_OF } from "../statements/look-up.ts";
import type { Found } from "../line/find-task.ts";
import { fromColumns, numbers, toColumns } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * How a run begins, continues and ends. Facts that the tables of its tasks contain are not stored again. A transaction
 * that continues or ends a run has locked its row (run-locks.ts).
 */

export interface RunRow {
  id: number;
  created_at: number;
  queue: string;
  pipeline: string;
  stages: string;
  under_way: number;
  counts: string | null;
  dead: number;
  state: Exclude<EndState, "dead"> | null;
  ended_at: number | null;
  result: string | null;
  result_bytes: Uint8Array | null;
}

export function isOfRun(task: Pick<NewTask, "queue"> | RunTask): boolean {
  return "at" in task || (task as NewTask).run !== undefined;
}

const BEGIN = `
  INSERT INTO dibs.run (id, created_at, queue, pipeline, stages, counts, under_way, dead)
  SELECT id, $1, queue, pipeline, stages, counts, 1, 0
  FROM unnest($2::int8[], $3::text[], $4::text[], $5::text[], $6::text[]) AS each (id, queue, pipeline, stages, counts)`;
const JOIN = `
  INSERT INTO dibs.run_part (task, run, created_at, stage, part)
  SELECT task, run, $1, stage, part
  FROM unnest($2::int8[], $3::int8[], $4::text[], $5::text[]) AS each (task, run, stage, part)`;

/** Tasks were added that begin a run, or continue one. */
export function joinRuns(tx: Tx, newTasks: { seq: number; task: NewTask | RunTask }[]): void {
  const tasks = newTasks.filter(({ task }) => isOfRun(task));
  if (tasks.length === 0) return;
  const begun = tasks.flatMap(({ seq, task }) =>
    "at" in task ? [] : [{ ...task.run!, seq, queue: task.queue }],
  );
  if (begun.length > 0) {
    tx.put(
      BEGIN,
      tx.now,
      numbers(begun.map(({ seq }) => seq)),
      begun.map(({ queue }) => queue),
      begun.map(({ pipeline }) => pipeline),
      begun.map(({ stages }) => JSON.stringify(stages)),
      begun.map(({ stages }) => countsText(firstCounts(stages))),
    );
  }
  tx.put(
    JOIN,
    tx.now,
    numbers(tasks.map(({ seq }) => seq)),
    numbers(tasks.map(({ seq, task }) => ("at" in task ? tx.place(task.at.id)!.seq : seq))),
    tasks.map(({ task }) => ("at" in task ? task.at.stage : task.run!.stages[0]!.name)),
    tasks.map(({ task }) => ("at" in task ? formatPart(task.at.part) : "")),
  );
}

const OF_RUN = `
  SELECT run_part.stage, run_part.part, run.*, task.headers
  FROM ${rowsBy("run_part", { task: "$1::int8" })} AS run_part
  CROSS JOIN ${lookUp("run", `run.id = run_part.run`)} CROSS JOIN ${TASK_OF("run_part")}`;

type KnownPart = RunRow & { stage: string; part: string; headers: string | null };

/** The run of a task, locked (run-locks.ts). */
async function runOf(tx: Tx, task: TransitionTask): Promise<KnownPart | undefined> {
  if (task.stepped === false) return undefined;
  await tx.runs.hold([task.seq]);
  return tx.get<KnownPart>(OF_RUN, task.seq);
}

const RESULTS = `SELECT stage, part, result, result_bytes FROM dibs.run_part WHERE run = $1 AND awaits_join`;
const RESULTS_OF_PART = rowsBy(
  "run_part",
  { run: "$1::int8", part: "$2::text" },
  { columns: "stage, part, result, result_bytes", also: "awaits_join" },
);

export type Planned = Plan & { run: KnownPart };

/** Decides what follows a stage, before anything is written. `over`: the run has ended. */
export async function plan(tx: Tx, task: Held, said: Success): Promise<Planned | "over" | undefined> {
  const run = await runOf(tx, task);
  if (!run) return undefined;
  if (run.state !== null) return "over";
  const at = { stage: run.stage, part: parsePart(run.part) };
  const known = {
    ...{
      id: tx.id(run.created_at, run.id),
      pipeline: run.pipeline,
      stages: JSON.parse(run.stages) as Stage[],
    },
    ...{ underWay: run.under_way, counts: countsFrom(run.counts), partResults: () => [] },
  };
  const results = await storedResults(tx, run, neededResults(known, at));
  const underWay = { ...known, partResults: () => results };
  const carried = {
    priority: fromRank(task.rank).priority,
    ...(run.headers !== null && { headers: JSON.parse(run.headers) as Headers }),
  };
  return { ...planNextStage(underWay, at, carried, said), run };
}

async function storedResults(
  tx: Tx,
  { id, part }: KnownPart,
  needed: "all" | "part" | "none",
): Promise<PartResult[]> {
  if (needed === "none") return [];
  type Row = { stage: string; part: string; result: string | null; result_bytes: Uint8Array | null };
  const rows = await (needed === "all" ? tx.all<Row>(RESULTS, id) : tx.all<Row>(RESULTS_OF_PART, id, part));
  return rows.map((row) => ({
    ...{ stage: row.stage, part: parsePart(row.part) },
    result: fromColumns(row.result, row.result_bytes),
  }));
}

const UNDER_WAY = `UPDATE dibs.run SET under_way = $1, counts = $3 WHERE id = $2`;

const STORE_RESULT = `
  UPDATE dibs.run_part SET awaits_join = true, result = $1, result_bytes = $2 WHERE ${isRowBy("run_part", { task: "$3::int8" })}`;
const DROP_RESULTS = `
  UPDATE dibs.run_part SET awaits_join = false, result = NULL, result_bytes = NULL WHERE run = $1 AND awaits_join`;

/** After the task's end, and before the next tasks are added. */
export async function continueRun(
  tx: Tx,
  task: Held,
  result: Body | null,
  planned: Planned | undefined,
): Promise<void> {
  if (!planned) return;
  const { run, underWay, counts } = planned;
  if (underWay !== run.under_way || counts) tx.send(UNDER_WAY, underWay, run.id, countsText(counts));
  if (planned.storesResult) tx.send(STORE_RESULT, ...toColumns(result), task.seq);
  if (planned.joinsResults) tx.send(DROP_RESULTS, run.id);
  if (planned.end) await endRun(tx, run.id, "done", planned.end.result);
}

const DEATH = `
  UPDATE dibs.run SET dead = dead + 1 WHERE id = ${rowsBy("run_part", { task: "$1::int8" }, { columns: "run" })}
  RETURNING id, created_at, state`;

/** A task of a run ended without success, or died. A success is recorded in its own row. */
export async function endPart(tx: Tx, task: TransitionTask, state: EndState): Promise<void> {
  if (state === "done" || task.stepped === false) return;
  if (state === "dead") {
    await tx.runs.hold([task.seq]);
    const [run] = await tx.take<RunRow>(DEATH, task.seq);
    if (run?.state === null) hintRun(tx, run);
    return;
  }
  const run = await runOf(tx, task);
  // The run can have no result any more.
  if (run?.state === null) await endRun(tx, run.id, state, null);
}

const LAST_START = `
  (SELECT started_at FROM dibs.attempt WHERE attempt.task = run_part.task ORDER BY fence DESC LIMIT 1)`;
const LOSE = `
  UPDATE dibs.run_part SET state = 'cancelled', started_at = ${LAST_START}, ended_at = $2
  WHERE ${isAmong("run_part", "$1::int8[]")} AND state IS NULL RETURNING run`;
// A join changes these rows too. Without the lock, a row that was found before the join would be skipped.
const LOCK_PARTS = `
  SELECT 1 FROM (SELECT task FROM unnest($1::int8[]) AS listed (task) ORDER BY task) AS wanted
  CROSS JOIN ${lookUp("run_part", { task: "wanted.task" }, { columns: "1", lock: "FOR UPDATE NOWAIT" })}`;
/** Ended tasks are about to be deleted: their runs and parents keep a record of their ends. */
const KEEP_ENDS = `
  UPDATE dibs.run_part SET state = ended.state, started_at = coalesce(ended.started_at, ${LAST_START}),
    ended_at = ended.ended_at
  FROM ${rowsOf("ended", "$1::int8[]", "task, state, started_at, ended_at")} AS ended CROSS JOIN LATERAL ${rowsBy("run_part", { task: "ended.task" }, { columns: "ctid AS place" })} AS part
  WHERE run_part.ctid = part.place`;
// By the run's id, not by ctid: another transaction may be about to update the row.
const REVIVALS = `
  WITH gone AS MATERIALIZED (
    SELECT run, count(*)::int4 AS count FROM ${rowsOf("run_part", "$1::int8[]")} AS part GROUP BY run)
  UPDATE dibs.run SET dead = dead - gone.count FROM gone
  WHERE run.id = gone.run AND run.id = ANY (ARRAY (SELECT run FROM gone))`;

/** Before the rows of `ended` are deleted. */
export function keepEnds(tx: Tx, seqs: readonly number[]): void {
  if (seqs.length === 0) return;
  const values = [numbers(seqs)];
  tx.sendAtOnce(LOCK_PARTS, values, { sql: LOCK_PARTS, values });
  tx.send(KEEP_ENDS, ...values);
  keepResults(tx, seqs);
}

/** Tasks are deleted, while their ledgers still exist. Returns the runs that can have no result any more. */
export async function loseParts(tx: Tx, tasks: readonly Found[]): Promise<number[]> {
  const lost = await losePartsOf(
    tx,
    tasks.map(({ seq }) => seq),
  );
  if (lost.length === 0) return [];
  revive(
    tx,
    tasks.filter(({ place }) => place.state === "dead").map(({ seq }) => seq),
  );
  return lost;
}

/** As `loseParts`, for tasks without a state yet, which cannot be dead. */
export async function losePartsOf(tx: Tx, seqs: readonly number[]): Promise<number[]> {
  await tx.runs.hold(seqs);
  const lost = await tx.take<{ run: number }>(LOSE, numbers(seqs), tx.now);
  return [...new Set(lost.map(({ run }) => run))].sort((a, b) => a - b);
}

function revive(tx: Tx, seqs: readonly number[]): void {
  if (seqs.length > 0) tx.send(REVIVALS, numbers(seqs));
}

const OVER = `
  SELECT run_part.task, run.state IS NOT NULL AS over
  FROM ${rowsOf("run_part", "$1::int8[]")} AS run_part CROSS JOIN ${lookUp("run", `run.id = run_part.run`)}`;

/**
 * The redriven tasks that are part of runs, and whether their run has ended. Called after the runs are locked: a
 * transaction that ends a run later finds the tasks in the line, and cancels them.
 */
export async function reviveParts(tx: Tx, seqs: readonly number[]): Promise<Map<number, boolean>> {
  await tx.runs.hold(seqs);
  revive(tx, seqs);
  const rows = await tx.all<{ task: number; over: boolean }>(OVER, numbers(seqs));
  return new Map(rows.map(({ task, over }) => [task, over]));
}

/** Its run has ended, so nothing can follow. */
export async function isRunEnded(tx: Tx, task: TransitionTask): Promise<boolean> {
  return ((await runOf(tx, task))?.state ?? null) !== null;
}

const END_RUN = `
  UPDATE dibs.run SET state = $2, ended_at = $3, result = $4, result_bytes = $5 WHERE id = $1 AND state IS NULL
  RETURNING id, created_at`;
const PENDING = `SELECT task FROM dibs.run_part WHERE run = $1 AND state IS NULL ORDER BY task`;

/** A run that did not succeed is noted in the batch: line/follow-ends.ts cancels its other tasks. */
export async function endRun(
  tx: Tx,
  id: number,
  state: Exclude<EndState, "dead">,
  result: Body | null,
): Promise<void> {
  await tx.runs.holdRun(id);
  const [run] = await tx.take<RunRow>(END_RUN, id, state, tx.now, ...toColumns(result));
  if (!run) return;
  forgetSignals(tx, id);
  hintRun(tx, run);
  if (cancelsRest(state)) tx.batch.endedRuns.push(id);
}

/** The results that wait for a join of this run. */
export function dropResults(tx: Tx, run: number): void {
  tx.send(DROP_RESULTS, run);
}

/** The tasks of this run that have not ended. */
export async function pendingTasks(tx: Tx, run: number): Promise<number[]> {
  return (await tx.all<{ task: number }>(PENDING, run)).map(({ task }) => task);
}

function hintRun(tx: Tx, { id, created_at: createdAt }: RunRow): void {
  (tx.batch.hint.runs ??= []).push(tx.id(createdAt, id));
}

export async function cancelRun(tx: Tx, { id }: Verbs["cancelRun"]["in"]): Promise<{ state: RunState }> {
  const run = await knownRun(tx, id);
  await endRun(tx, run.id, "cancelled", null);
  return { state: stateOfRun(await knownRun(tx, id)) };
}

/** Cancels the run of a task; false if it has none. */
export async function cancelItsRun(tx: Tx, task: Found): Promise<boolean> {
  const run = await runOf(tx, task);
  if (run?.state === null) await endRun(tx, run.id, "cancelled", null);
  return run !== undefined;
}

const RUNS = `SELECT * FROM dibs.run WHERE id = ANY ($1::int8[])`;

/** Runs by their ids. Those that do not exist are left out. */
export async function findRuns(tx: Tx, ids: readonly string[]): Promise<Map<string, RunRow>> {
  const places = ids.flatMap((id) => tx.place(id) ?? []);
  const rows = await tx.all<RunRow>(RUNS, numbers(places.map(({ seq }) => seq)));
  return new Map(rows.map((row) => [tx.id(row.created_at, row.id), row]));
}

export async function knownRun(tx: Tx, id: string): Promise<RunRow> {
  const run = (await findRuns(tx, [id])).get(id);
  if (!run) throw taskNotFound(id);
  return run;
}

const ENDED_RUNS = `
  SELECT queue, count(*)::int8 AS count FROM dibs.run WHERE ended_at IS NOT NULL GROUP BY queue ORDER BY queue`;
const OLDEST = `
  SELECT id, ended_at FROM dibs.run WHERE queue = $1 AND ended_at IS NOT NULL ORDER BY ended_at, id LIMIT $2
  FOR UPDATE SKIP LOCKED`;
const FORGET = [
  `DELETE FROM dibs.run_part WHERE run = ANY ($1::int8[])`,
  `DELETE FROM dibs.run WHERE id = ANY ($1::int8[])`,
] as const;

/**
 * Deletes ended runs, as long after their end as ended tasks of their first queue are kept. Returns whether there are
 * more.
 */
export async function pruneRuns(tx: Tx, limit: number): Promise<boolean> {
  let left = limit;
  for (const { queue, count } of await tx.all<{ queue: string; count: number }>(ENDED_RUNS)) {
    const { retention } = tx.queues.policyOf(queue);
    const rows = await tx.all<{ id: number; ended_at: number }>(OLDEST, queue, left + 1);
    const doomed = pastRetention(rows, (run) => run.ended_at, retention, { ended: count, now: tx.now });
    const going = doomed.slice(0, left).map(({ id }) => id);
    if (going.length > 0) for (const sql of FORGET) tx.send(sql, numbers(going));
    if (doomed.length > left) return true;
    left -= doomed.length;
  }
  return false;
}
