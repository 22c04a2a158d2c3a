import type { Verbs } from "../../engine/engine.ts";
import { fitting, sizeOfRow } from "../../core/answer/answer-size.ts";
import { taskNotFound } from "../../core/errors/task-not-found.ts";
import {
  firstCounts,
  placeAt,
  type RunPart,
  type RunPlace,
  type RunRecord,
  type RunStart,
  type RunState,
  type RunTask,
} from "../../core/run/run.ts";
import { formatPart } from "../../core/run/run-part.ts";
import { type Plan, planNextStage } from "../../core/run/next-stage.ts";
import type { Success } from "../../core/run/run-success.ts";
import { cancelsRest, effectOnRun, losesResult, type RunEnd, stateOfRun } from "../../core/run/run-end.ts";
import { pastRetention } from "../../core/task/retention.ts";
import type { Body, EndState, TaskEnd } from "../../core/task/task.ts";
import type { Model, ModelPart, ModelRun, ModelTask } from "./model.ts";

/** Records an added task as a part of its run; the first one begins the run. */
export function joinRun(
  model: Model,
  task: ModelTask,
  start: RunStart | undefined,
  at?: RunTask["at"],
): void {
  if (start) begin(model, task, start);
  const run = model.runs.get(at?.id ?? task.id);
  if (!run || (!start && !at)) return;
  const part: ModelPart = {
    id: task.id,
    seq: task.seq,
    queue: task.queue,
    stage: at?.stage ?? run.stages[0]!.name,
    part: at?.part ?? [],
    createdAt: task.createdAt,
    state: null,
    startedAt: null,
    endedAt: null,
    awaitsJoin: null,
  };
  run.parts.push(part);
  task.run = { run, part };
}

function begin(model: Model, { id, seq, queue }: ModelTask, { pipeline, stages }: RunStart): void {
  model.runs.set(id, {
    ...{ id, seq, queue, pipeline, stages, createdAt: model.now },
    counts: firstCounts(stages),
    ...{ underWay: 1, state: null, endedAt: null, result: null, signals: new Map(), parts: [] },
  });
}

export function placeOf({ run: known }: ModelTask): RunPlace | null {
  if (!known) return null;
  return placeAt(known.run, known.part);
}

/** Decides what follows a success, before anything is written. */
export function plan(task: ModelTask, said: Success): Plan | null {
  if (!task.run) return null;
  const { run, part } = task.run;
  const partResults = () =>
    run.parts
      .filter((other) => other.awaitsJoin)
      .map((other) => ({ stage: other.stage, part: other.part, ...other.awaitsJoin! }));
  return planNextStage({ ...run, partResults }, part, task, said);
}

/** Applies the plan, after the task's own end and before the next tasks are added. */
export function continueRun(model: Model, task: ModelTask, result: Body | null, planned: Plan | null): void {
  if (!planned) return;
  const { run, part } = task.run!;
  run.underWay = planned.underWay;
  run.counts = planned.counts;
  if (planned.storesResult) part.awaitsJoin = { result };
  if (planned.joinsResults) for (const other of run.parts) other.awaitsJoin = null;
  if (planned.end) endRun(model, run, "done", planned.end.result);
}

/** A part of a run has ended, or was removed. If that ends the run, returns the tasks that are left: cancel them. */
export function endPart(model: Model, task: ModelTask, state: EndState): ModelTask[] {
  if (!task.run) return [];
  const { run, part } = task.run;
  part.state = state;
  part.startedAt = task.ledger.at(-1)?.startedAt ?? null;
  part.endedAt = model.now;
  const effect = effectOnRun(state, run.state);
  if (effect.kind === "report") hintRun(model, run);
  return effect.kind === "end" ? endRun(model, run, effect.state, null) : [];
}

/** A task is removed. What had ended before stays on the run's record as it was. Returns what endPart() returns. */
export function losePart(model: Model, task: ModelTask): ModelTask[] {
  return task.run && losesResult(task.run.part.state) ? endPart(model, task, "cancelled") : [];
}

/** A dead part was redriven. */
export function revivePart({ run }: ModelTask): void {
  if (run) Object.assign(run.part, { state: null, startedAt: null, endedAt: null });
}

/** Whether the task's run has ended, so that no stage can follow. */
export function isRunEnded({ run }: ModelTask): boolean {
  return run !== null && run.run.state !== null;
}

/** Returns the tasks that are left: the caller cancels them. */
export function endRun(model: Model, run: ModelRun, state: RunEnd, result: Body | null): ModelTask[] {
  Object.assign(run, { state, endedAt: model.now, result, signals: new Map() });
  hintRun(model, run);
  if (!cancelsRest(state)) return [];
  for (const part of run.parts) part.awaitsJoin = null;
  return run.parts.flatMap((part) => (part.state === null ? (model.tasks.get(part.id) ?? []) : []));
}

function hintRun(model: Model, { id }: ModelRun): void {
  model.hint.runs = [...(model.hint.runs ?? []), id];
}

export function knownRun(model: Model, id: string): ModelRun {
  const run = model.runs.get(id);
  if (!run) throw taskNotFound(id);
  return run;
}

export function stateOf(run: ModelRun): RunState {
  return stateOfRun({ state: run.state, dead: run.parts.filter(({ state }) => state === "dead").length });
}

export function inspectRun(
  model: Model,
  { id, after, limit }: Verbs["run"]["in"],
): { run: RunRecord; parts: RunPart[]; next: number | null } {
  const run = knownRun(model, id);
  const rest = run.parts.filter(({ seq }) => after === undefined || seq > after);
  const page = rest.slice(0, limit);
  return {
    run: recordOf(run),
    parts: page.map((part) => describe(model, part)),
    next: rest.length > limit ? page.at(-1)!.seq : null,
  };
}

export function listRuns(
  model: Model,
  { pipeline, state, after = Infinity, limit }: Verbs["runs"]["in"],
): { runs: RunRecord[]; next: number | null } {
  const found = [...model.runs.values()]
    .filter((run) => run.pipeline === pipeline && run.seq < after)
    .filter((run) => state === undefined || stateOf(run) === state)
    .sort((a, b) => b.seq - a.seq);
  const runs = fitting(found.slice(0, limit).map(recordOf), sizeOfRow);
  return { runs, next: runs.length < found.length ? found[runs.length - 1]!.seq : null };
}

function recordOf(run: ModelRun): RunRecord {
  const { id, pipeline, stages, createdAt, endedAt } = run;
  return { id, pipeline, stages, state: stateOf(run), createdAt, endedAt };
}

function describe(model: Model, part: ModelPart): RunPart {
  const { id, queue, stage, createdAt, endedAt } = part;
  const told = { id, queue, stage, part: part.part, createdAt, endedAt };
  if (part.state !== null) return { ...told, state: part.state, startedAt: part.startedAt };
  const task = model.tasks.get(id)!;
  return { ...told, state: task.state, startedAt: (task.claim ?? task.pending)?.startedAt ?? null };
}

export function endOfRun(model: Model, id: string): TaskEnd | "pending" | "missing" {
  const run = model.runs.get(id);
  if (!run) return "missing";
  const state = stateOf(run);
  if (state === "running") return "pending";
  // With several errors, the first part in order.
  const dead = run.parts
    .filter((part) => part.state === "dead")
    .sort((a, b) => (formatPart(a.part) < formatPart(b.part) ? -1 : 1))[0];
  const error = state === "dead" ? model.tasks.get(dead!.id)!.error : null;
  return { id, state, result: run.result, error };
}

/** Deletes ended runs, as long after their end as ended tasks of their first queue. */
export function pruneRuns(model: Model, limit: number): boolean {
  const ended = [...model.runs.values()]
    .filter(({ state }) => state !== null)
    .sort((a, b) => a.endedAt! - b.endedAt! || a.seq - b.seq);
  const doomed = [...Map.groupBy(ended, ({ queue }) => queue)]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([queue, runs]) => {
      const { retention } = model.policy(queue);
      return pastRetention(runs, (run) => run.endedAt!, retention, { ended: runs.length, now: model.now });
    });
  for (const run of doomed.slice(0, limit)) forget(model, run);
  return doomed.length > limit;
}

function forget(model: Model, run: ModelRun): void {
  model.runs.delete(run.id);
  for (const { id } of run.parts) {
    const task = model.tasks.get(id);
    if (task) task.run = null;
  }
}
