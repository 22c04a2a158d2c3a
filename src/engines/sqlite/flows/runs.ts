import type { Verbs } from "../../../engine/engine.ts";
import {
  countsFrom,
  countsText,
  firstCounts,
  placeAt,
  type RunPlace,
  type RunStart,
  type RunState,
  type RunTask,
  type Stage,
} from "../../../core/run/run.ts";
import { formatPart, type PartResult, parsePart } from "../../../core/run/run-part.ts";
import { neededResults, type Plan, planNextStage } from "../../../core/run/next-stage.ts";
import type { RunUnderWay, Success } from "../../../core/run/run-success.ts";
import { pastRetention } from "../../../core/task/retention.ts";
import { cancelsRest, effectOnRun, losesResult, type RunEnd, stateOfRun } from "../../../core/run/run-end.ts";
import { taskNotFound } from "../../../core/errors/task-not-found.ts";
import {
  type Body,
  type EndState,
  fromRank,
  type Headers,
  isEnd,
  type NewTask,
} from "../../../core/task/task.ts";
import { bodyFrom } from "../statements/body.ts";
import type { Held, TransitionTask } from "../line/line.ts";
import { FORGET_SIGNALS } from "./run-signals.ts";
import type { Found } from "../line/find-task.ts";
import type { Tx } from "../transaction/tx.ts";

/** How a run begins, continues and ends. Facts that the tables of its tasks contain are not stored again. */

export interface RunRow {
  id: number;
  created_at: number;
  queue: string;
  pipeline: string;
  stages: string;
  under_way: number;
  counts: string | null;
  dead: number;
  state: RunEnd | null;
  ended_at: number | null;
  result: Body | null;
}

const BEGIN = `
  INSERT INTO run (id, created_at, queue, pipeline, stages, counts, under_way, dead) VALUES (?, ?, ?, ?, ?, ?, 1, 0)`;
const JOIN = `INSERT INTO run_part (task, run, created_at, stage, part) VALUES (?, ?, ?, ?, ?)`;

/** A task was added that begins or continues a run. Written before it enters the line, whose row says so. */
export function joinRun(tx: Tx, seq: number, task: RunBeginning | RunTask): void {
  tx.noteRun();
  if (!("at" in task)) tx.run(BEGIN, ...beginning(tx, seq, task));
  tx.run(JOIN, ...joining(tx, seq, task));
}

export interface RunBeginning extends NewTask {
  run: RunStart;
}

export function isOfRun(task: NewTask | RunTask): task is RunBeginning | RunTask {
  return "at" in task || task.run !== undefined;
}

export function beginning(
  tx: Tx,
  seq: number,
  { queue, run }: RunBeginning,
): [number, number, string, string, string, string | null] {
  const counts = firstCounts(run.stages);
  const stages = tx.stages.format(run.stages);
  return [seq, tx.now, queue, run.pipeline, stages, countsText(counts)];
}

export function joining(
  tx: Tx,
  seq: number,
  task: RunBeginning | RunTask,
): [number, number, number, string, string] {
  if (!("at" in task)) return [seq, seq, tx.now, task.run.stages[0]!.name, ""];
  const { id, stage, part } = task.at;
  return [seq, tx.place(id)!.seq, tx.now, stage, formatPart(part)];
}

/** The lists of stages of runs, as they are stored: few lists, each used by many runs. */
export class StageLists {
  readonly #parsed = new Map<string, Stage[]>();
  readonly #texts = new WeakMap<Stage[], string>();

  format(stages: Stage[]): string {
    let text = this.#texts.get(stages);
    if (text === undefined) this.#texts.set(stages, (text = JSON.stringify(stages)));
    return text;
  }

  parse(text: string): Stage[] {
    let stages = this.#parsed.get(text);
    if (!stages) {
      if (this.#parsed.size > MOST_LISTS) this.#parsed.clear();
      this.#parsed.set(text, (stages = JSON.parse(text) as Stage[]));
    }
    return stages;
  }
}

const MOST_LISTS = 1_000;

export interface OfRunRow {
  run: number;
  created_at: number;
  pipeline: string;
  stages: string;
  stage: string;
  part: string;
}

const OF_RUN = `
  SELECT run_part.stage, run_part.part, run.* FROM run_part CROSS JOIN run ON run.id = run_part.run
  WHERE run_part.task = ?`;

type KnownPart = RunRow & { stage: string; part: string };

function runOf(tx: Tx, { seq, ofRun }: Pick<TransitionTask, "seq" | "ofRun">): KnownPart | undefined {
  return ofRun === false || !tx.hasRuns ? undefined : tx.get<KnownPart>(OF_RUN, seq);
}

export function placeOf(tx: Tx, task: TransitionTask): RunPlace | null {
  const row = runOf(tx, task);
  return row ? placeFrom(tx, { ...row, run: row.id }) : null;
}

export function placeFrom(tx: Tx, row: OfRunRow): RunPlace {
  const { pipeline, stage } = row;
  const run = { id: tx.id(row.created_at, row.run), pipeline, stages: tx.stages.parse(row.stages) };
  return placeAt(run, { stage, part: parsePart(row.part) });
}

const RESULTS = `SELECT stage, part, result FROM run_part WHERE run = ? AND awaits_join = 1`;
const RESULTS_OF_PART = `${RESULTS} AND part = ?`;
const HEADERS = `SELECT headers FROM task WHERE seq = ?`;

export type Planned = Plan & { run: KnownPart };

/** Decides what follows a stage, before anything is written. */
export function plan(tx: Tx, task: Held, said: Success): Planned | undefined {
  const run = runOf(tx, task);
  if (!run) return undefined;
  const { headers } = tx.get<{ headers: string | null }>(HEADERS, task.seq)!;
  const at = { stage: run.stage, part: parsePart(run.part) };
  const underWay: RunUnderWay = {
    ...{ id: tx.id(run.created_at, run.id), pipeline: run.pipeline, stages: tx.stages.parse(run.stages) },
    ...{ underWay: run.under_way, counts: countsFrom(run.counts) },
    partResults: () => storedResults(tx, run, neededResults(underWay, at)),
  };
  const carried = {
    priority: fromRank(task.rank).priority,
    ...(headers !== null && { headers: JSON.parse(headers) as Headers }),
  };
  return { ...planNextStage(underWay, at, carried, said), run };
}

function storedResults(tx: Tx, { id, part }: KnownPart, needed: "all" | "part" | "none"): PartResult[] {
  type Row = { stage: string; part: string; result: Body | null };
  const rows =
    needed === "none"
      ? []
      : needed === "all"
        ? tx.all<Row>(RESULTS, id)
        : tx.all<Row>(RESULTS_OF_PART, id, part);
  return rows.map((row) => ({ stage: row.stage, part: parsePart(row.part), result: bodyFrom(row.result) }));
}

const UNDER_WAY = `UPDATE run SET under_way = ?, counts = ? WHERE id = ?`;
const STORE_RESULT = `UPDATE run_part SET awaits_join = 1, result = ? WHERE task = ?`;
const DROP_RESULTS = `UPDATE run_part SET awaits_join = 0, result = NULL WHERE run = ? AND awaits_join = 1`;

/** After the task's end, and before the next tasks are added. */
export function continueRun(tx: Tx, task: Held, result: Body | null, planned: Planned | undefined): void {
  if (!planned) return;
  const { run, underWay, counts } = planned;
  if (underWay !== run.under_way || counts) tx.run(UNDER_WAY, underWay, countsText(counts), run.id);
  if (planned.storesResult) tx.run(STORE_RESULT, result, task.seq);
  if (planned.joinsResults) tx.run(DROP_RESULTS, run.id);
  if (planned.end) endRun(tx, run, "done", planned.end.result);
}

const DEATH = `UPDATE run SET dead = dead + 1 WHERE id = (SELECT run FROM run_part WHERE task = ?)`;
const REVIVAL = `UPDATE run SET dead = dead - 1 WHERE id = (SELECT run FROM run_part WHERE task = ?)`;

/** A task of a run ended without success, or died. A success is recorded in its own row. */
export function endPart(tx: Tx, task: TransitionTask, state: EndState): void {
  const run = state === "done" ? undefined : runOf(tx, task);
  if (!run) return;
  if (state === "dead") tx.run(DEATH, task.seq);
  const effect = effectOnRun(state, run.state);
  if (effect.kind === "report") hintRun(tx, run);
  if (effect.kind === "end") endRun(tx, run, effect.state, null);
}

const LAST_START = `(SELECT started_at FROM attempt WHERE attempt.task = run_part.task ORDER BY fence DESC LIMIT 1)`;
const LOSE = `
  UPDATE run_part SET state = 'cancelled', started_at = ${LAST_START}, ended_at = ?
  WHERE task = ?`;
const KEEP_END = `
  UPDATE run_part SET (state, started_at, ended_at) = (
    SELECT state, coalesce(started_at, ${LAST_START}), ended_at FROM ended WHERE ended.task = run_part.task)`;
const KEEP_ONE_END = `${KEEP_END} WHERE task = ?`;
const KEEP_ENDS = `${KEEP_END} WHERE task IN (
  SELECT task FROM ended WHERE queue = ? AND (ended_at, task) <= (?, ?))`;

/** A task is about to be deleted: its run keeps a record of its end. */
export function losePart(tx: Tx, task: Found): void {
  const run = runOf(tx, task);
  if (!run) return;
  const { state } = task.place;
  if (!losesResult(isEnd(state) ? state : null)) {
    tx.run(KEEP_ONE_END, task.seq);
    return;
  }
  tx.run(LOSE, tx.now, task.seq);
  if (state === "dead") tx.run(REVIVAL, task.seq);
  tx.batch.lostRuns.push(run);
}

/** After it was deleted: its run can have no result any more. */
export function endLostRuns(tx: Tx): void {
  for (let lost = tx.batch.lostRuns.shift(); lost; lost = tx.batch.lostRuns.shift()) {
    const run = tx.get<RunRow>(RUN_BY_SEQ, lost.id)!;
    if (run.state === null) endRun(tx, run, "cancelled", null);
  }
}

/** Like the function above, for all tasks that are past their retention. */
export function keepEnds(tx: Tx, queue: number, endedAt: number, last: number): void {
  if (tx.hasRuns) tx.run(KEEP_ENDS, queue, endedAt, last);
}

/** It is part of a run. */
export function isPartOfRun(tx: Tx, seq: number): boolean {
  return tx.hasRuns && tx.get(OF_RUN, seq) !== undefined;
}

/** A dead task is redriven. */
export function revivePart(tx: Tx, seq: number): void {
  if (tx.hasRuns) tx.run(REVIVAL, seq);
}

/** Its run has ended, so nothing can follow. */
export function isRunEnded(tx: Tx, task: TransitionTask): boolean {
  return (runOf(tx, task)?.state ?? null) !== null;
}

const END_RUN = `UPDATE run SET state = ?, ended_at = ?, result = ? WHERE id = ?`;
const PENDING = `SELECT task FROM run_part WHERE run = ? AND state IS NULL ORDER BY task`;

/** A run that did not succeed is noted in the batch: line/follow-ends.ts cancels its other tasks. */
function endRun(tx: Tx, run: RunRow, state: RunEnd, result: Body | null): void {
  tx.run(END_RUN, state, tx.now, result, run.id);
  tx.run(FORGET_SIGNALS, run.id);
  run.state = state;
  hintRun(tx, run);
  if (!cancelsRest(state)) return;
  tx.run(DROP_RESULTS, run.id);
  tx.batch.endedRuns.push(run.id);
}

/** The tasks of this run that have not been deleted. */
export function pendingTasks(tx: Tx, run: number): number[] {
  return tx.all<{ task: number }>(PENDING, run).map(({ task }) => task);
}

function hintRun(tx: Tx, { id, created_at: createdAt }: RunRow): void {
  (tx.batch.hint.runs ??= []).push(tx.id(createdAt, id));
}

export function cancelRun(tx: Tx, { id }: Verbs["cancelRun"]["in"]): { state: RunState } {
  const run = knownRun(tx, id);
  if (run.state === null) endRun(tx, run, "cancelled", null);
  return { state: stateOfRun(run) };
}

/** Cancels the run of a task; false if it has none. */
export function cancelItsRun(tx: Tx, task: Found): boolean {
  const run = runOf(tx, task);
  if (run?.state === null) endRun(tx, run, "cancelled", null);
  return run !== undefined;
}

const RUN = `SELECT * FROM run WHERE id = ? AND created_at = ?`;
const RUN_BY_SEQ = `SELECT * FROM run WHERE id = ?`;

export function findRun(tx: Tx, id: string): RunRow | undefined {
  const place = tx.place(id);
  return place && tx.get<RunRow>(RUN, place.seq, place.createdAt);
}

export function knownRun(tx: Tx, id: string): RunRow {
  const run = findRun(tx, id);
  if (!run) throw taskNotFound(id);
  return run;
}

const ENDED_RUNS = `
  SELECT queue, count(*) AS count FROM run WHERE ended_at IS NOT NULL GROUP BY queue ORDER BY queue`;
const OLDEST = `
  SELECT id, ended_at FROM run WHERE queue = ? AND ended_at IS NOT NULL ORDER BY ended_at, id LIMIT 0 + ?`;
const DOOMED = `SELECT id FROM run WHERE queue = ? AND ended_at IS NOT NULL AND (ended_at, id) <= (?, ?)`;
const DELETE_PARTS = `DELETE FROM run_part WHERE run IN (${DOOMED})`;
const DELETE_RUNS = `DELETE FROM run WHERE queue = ? AND ended_at IS NOT NULL AND (ended_at, id) <= (?, ?)`;

/**
 * Deletes ended runs, as long after their end as ended tasks of their first queue are kept. Returns whether there are
 * more.
 */
export function pruneRuns(tx: Tx, limit: number): boolean {
  if (!tx.hasRuns) return false;
  let left = limit;
  for (const { queue, count } of tx.all<{ queue: string; count: number }>(ENDED_RUNS)) {
    const { retention } = tx.queues.policyOf(queue);
    const oldest = tx.all<{ id: number; ended_at: number }>(OLDEST, queue, left + 1);
    const endedAt = (run: { ended_at: number }) => run.ended_at;
    const doomed = pastRetention(oldest, endedAt, retention, { ended: count, now: tx.now });
    const isMore = doomed.length > left;
    const last = doomed.slice(0, left).at(-1);
    if (last) for (const sql of [DELETE_PARTS, DELETE_RUNS]) tx.run(sql, queue, last.ended_at, last.id);
    left -= Math.min(left, doomed.length);
    if (isMore) return true;
  }
  return false;
}
