import { byteLength, isLarger, LIMITS, tooMuchGathered } from "../input/limits.ts";
import { type RunStart, type Stage, stageQueue } from "./run.ts";
import { formatPart, gather } from "./run-part.ts";
import {
  type At,
  costsOfNothing,
  type Following,
  itemsOf,
  noStageForParts,
  type RunUnderWay,
  type Success,
} from "./run-success.ts";
import { withCosts } from "./stage-cost.ts";

/** What follows a success in a run whose stages follow each other, for planNextStage (next-stage.ts). */

export function planLine(run: RunUnderWay, at: At, success: Success): Following {
  const { result, each = false } = success;
  const { tasks, storesResult } = nextStageAfter(run, at, success);
  const goingOn = { tasks, counts: null, joinsResults: false, end: null };
  const isLast = tasks.length === 0 && run.underWay === 1;
  if (!isLast) return { ...goingOn, storesResult: tasks.length === 0 && storesResult };
  // No other task of the run is in progress: all parts have arrived.
  const join = joinAfter(run, at.stage);
  if (!join && !each && at.part.length === 0) return { ...goingOn, storesResult: false, end: { result } };
  const own = storesResult ? [{ stage: at.stage, part: at.part, result }] : [];
  const all = gather(
    [...run.partResults(), ...own]
      .map(({ part, result: partResult }) => ({ key: formatPart(part), partResult }))
      .sort((a, b) => (a.key < b.key ? -1 : 1))
      .map(({ partResult }) => partResult),
  );
  if (isLarger(all, LIMITS.gatheredBytes)) throw tooMuchGathered(byteLength(all));
  const over = { ...goingOn, storesResult: false, joinsResults: true };
  if (!join) return { ...over, end: { result: all } };
  const joined = { queue: stageQueue(run.pipeline, join.name), stage: join.name, part: [], data: all };
  return { ...over, tasks: withCosts(run, join, [joined], undefined) };
}

/** Plans what follows a task. Throws INVALID if its pipeline cannot continue with what the stage returned. */
function nextStageAfter(
  run: RunStart,
  at: At,
  { result, each = false, next: costs }: Success,
): Pick<Following, "tasks" | "storesResult"> {
  const next = run.stages[run.stages.findIndex(({ name }) => name === at.stage) + 1];
  if (each) {
    if (!next || next.joins) throw noStageForParts(run, at.stage, next);
    const tasks = itemsOf(result, at.stage).map((item, index) => ({
      ...{ queue: stageQueue(run.pipeline, next.name), stage: next.name },
      ...{ part: [...at.part, index], data: item },
    }));
    return { tasks: withCosts(run, next, tasks, costs), storesResult: false };
  }
  if (!next || next.joins) {
    if (costs && costs.stage === undefined) throw costsOfNothing(at.stage);
    return { tasks: [], storesResult: true };
  }
  const task = { queue: stageQueue(run.pipeline, next.name), stage: next.name, part: at.part };
  return { tasks: withCosts(run, next, [{ ...task, data: result ?? "null" }], costs), storesResult: true };
}

/** The next stage that joins the parts; undefined: the run is done. */
function joinAfter(run: RunStart, stage: string): Stage | undefined {
  const index = run.stages.findIndex(({ name }) => name === stage);
  return run.stages.slice(index + 1).find(({ joins }) => joins);
}
