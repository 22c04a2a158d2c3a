import { invalid } from "../errors/errors.ts";
import { byteLength, isLarger, LIMITS, tooMuchGathered } from "../input/limits.ts";
import { type Stage, type StageCounts, stageQueue } from "./run.ts";
import { formatPart, gather, type PartResult, textOf } from "./run-part.ts";
import {
  type At,
  costsOfNothing,
  type Following,
  itemsOf,
  type NextTask,
  noStageForParts,
  type RunUnderWay,
  type Success,
} from "./run-success.ts";
import { withCosts } from "./stage-cost.ts";
import { followersOf, inputsOf, isMerging, lastStages, stagesBefore, stagesOnParts } from "./stage-graph.ts";
import type { Body } from "../task/task.ts";

/**
 * What follows a success in a run whose stages are a graph, for planNextStage (next-stage.ts). Such a run counts its tasks by
 * stage (`counts`): a joining stage starts when no task is left in the stages before it, whatever others do.
 */

export function planGraph(run: RunUnderWay, at: At, success: Success): Following {
  const { stages } = run;
  const { result, each = false } = success;
  const counts: StageCounts = { ...run.counts, [at.stage]: run.counts![at.stage]! - 1 };
  const followers = followersOf(stages, at.stage);
  if (each) checkParts(run, at.stage, followers);
  else if (success.next && success.next.stage === undefined && followers.every(({ joins }) => joins))
    throw costsOfNothing(at.stage);
  const stored = run.partResults();
  const own = each ? [] : [{ stage: at.stage, part: at.part, result }];
  const tasks = followers.flatMap((stage) =>
    stage.joins ? [] : withCosts(run, stage, tasksAt(run, at, stage, success, stored), success.next),
  );
  const starts = (stage: string): boolean => tasks.some((task) => task.stage === stage);
  // A result stays stored until all stages that get it have started.
  const storesResult =
    !each && (followers.length === 0 || followers.some((stage) => stage.joins || !starts(stage.name)));
  for (const { stage } of tasks) counts[stage] = (counts[stage] ?? 0) + 1;
  for (const stage of stages) {
    if (!stage.joins || counts[stage.name] !== undefined) continue;
    const before = [...stagesBefore(stages, stage.name)];
    if (before.some((name) => (counts[name] ?? 0) > 0)) continue;
    const data = joined(stages, stage, [...stored, ...own]);
    tasks.push(...withCosts(run, stage, [taskOf(run, stage.name, [], data)], undefined));
    counts[stage.name] = 1;
  }
  const isOver = Object.values(counts).every((count) => count === 0);
  const end = isOver ? { result: resultOf(stages, [...stored, ...own]) } : null;
  return { tasks, counts, storesResult: storesResult && !isOver, joinsResults: isOver, end };
}

function taskOf({ pipeline }: RunUnderWay, stage: string, part: number[], data: Body): NextTask {
  return { queue: stageQueue(pipeline, stage), stage, part, data };
}

function tasksAt(
  run: RunUnderWay,
  at: At,
  stage: Stage,
  { result, each }: Success,
  stored: readonly PartResult[],
): NextTask[] {
  if (each) return itemsOf(result, at.stage).map((item, n) => taskOf(run, stage.name, [...at.part, n], item));
  if (!isMerging(stage)) return [taskOf(run, stage.name, at.part, result ?? "null")];
  const part = formatPart(at.part);
  const here = [...stored.filter((one) => formatPart(one.part) === part), { stage: at.stage, result }];
  const inputs = stage.after.map((name) => here.find((one) => one.stage === name));
  if (!inputs.every((input) => input !== undefined)) return [];
  return [taskOf(run, stage.name, at.part, objectOf(inputs.map((one) => [one.stage, textOf(one.result)])))];
}

/**
 * Refuses parts that a later stage would merge with a result that is not split: stages get parts one by one, or joined.
 */
function checkParts(run: RunUnderWay, stage: string, followers: readonly Stage[]): void {
  const [first] = followers;
  const joining = followers.find(({ joins }) => joins);
  if (!first || joining) throw noStageForParts(run, stage, joining);
  const onParts = stagesOnParts(run.stages, stage);
  for (const merging of run.stages) {
    if (!onParts.has(merging.name) || !isMerging(merging)) continue;
    const whole = merging.after.find((name) => !onParts.has(name));
    if (whole !== undefined)
      throw invalid(
        `Stage "${stage}" of pipeline "${run.pipeline}" returned each(), and "${merging.name}" merges its parts with ` +
          `"${whole}", which is not split. Let a joining stage come before "${merging.name}", or return the array itself.`,
      );
  }
}

/**
 * The input of a joining stage: the list of results of the stage before it, or of several stages an object with a list
 * of each.
 */
function joined(stages: readonly Stage[], stage: Stage, results: readonly PartResult[]): string {
  const listOf = (name: string): string => gather(inOrder(results.filter((one) => one.stage === name)));
  if (isMerging(stage)) return objectOf(stage.after.map((name) => [name, listOf(name)]));
  return checkGathered(listOf(inputsOf(stages, stage.name)[0]!));
}

/** The result of the run: that of its last stage, or of several an object with the result of each. */
function resultOf(stages: readonly Stage[], results: readonly PartResult[]): Body | null {
  const last = lastStages(stages).map((name) => [name, results.filter((one) => one.stage === name)] as const);
  const isWhole = (found: readonly PartResult[]): boolean =>
    found.length === 1 && found[0]!.part.length === 0;
  const [[, only]] = last as [(typeof last)[number]];
  if (last.length === 1 && isWhole(only)) return only[0]!.result;
  const textAt = (found: readonly PartResult[]): string =>
    isWhole(found) ? textOf(found[0]!.result) : gather(inOrder(found));
  if (last.length === 1) return checkGathered(textAt(only));
  return objectOf(last.map(([name, found]) => [name, textAt(found)]));
}

function inOrder(results: readonly PartResult[]): (Body | null)[] {
  return results
    .toSorted((a, b) => (formatPart(a.part) < formatPart(b.part) ? -1 : 1))
    .map(({ result }) => result);
}

function objectOf(fields: readonly (readonly [name: string, json: string])[]): string {
  return checkGathered(`{${fields.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(",")}}`);
}

function checkGathered(text: string): string {
  if (isLarger(text, LIMITS.gatheredBytes)) throw tooMuchGathered(byteLength(text));
  return text;
}

/** Which stored results `planGraph` will read: those of all parts if its task is the last before a join or the end. */
export function neededOfGraph({ stages, counts }: RunUnderWay, { stage }: At): "all" | "part" | "none" {
  const left = (names: Iterable<string>): number =>
    [...names].reduce((sum, name) => sum + (counts![name] ?? 0), 0);
  if (left(Object.keys(counts!)) === 1) return "all";
  const mayStart = (next: Stage): boolean => {
    if (!next.joins || counts![next.name] !== undefined) return false;
    const before = stagesBefore(stages, next.name);
    return before.has(stage) && left(before) === 1;
  };
  if (stages.some(mayStart)) return "all";
  return followersOf(stages, stage).some(isMerging) ? "part" : "none";
}
