import { invalid } from "../errors/errors.ts";
import { show } from "../errors/show.ts";

/**
 * The order of a pipeline's stages. A stage follows the one before it in the list, or those that `after` names; so the
 * stages are a graph, and every run goes through it. run.ts and graph-plan.ts ask what comes before and after a stage.
 */

export interface Ordered {
  name: string;
  /** Starts once, when all parts of a run have arrived, with their results. */
  joins: boolean;
  /**
   * One name: it gets the result of that stage. A list: it merges them, and gets an object with the result of each.
   * Absent: it follows the stage before it in the list.
   */
  after?: string | string[];
}

/** Only these runs count their tasks by stage. */
export function isGraph(stages: readonly Ordered[]): boolean {
  return stages.some(({ after }) => after !== undefined);
}

/** It gets an object with the results of several stages. */
export function isMerging(stage: Ordered): stage is Ordered & { after: string[] } {
  return Array.isArray(stage.after);
}

/** The stages whose results it gets. */
export function inputsOf(stages: readonly Ordered[], name: string): string[] {
  const index = stages.findIndex((stage) => stage.name === name);
  const after = stages[index]?.after;
  if (after === undefined) return stages.slice(Math.max(0, index - 1), index).map((stage) => stage.name);
  return typeof after === "string" ? [after] : after;
}

/** The stages that get its result. */
export function followersOf<Stage extends Ordered>(stages: readonly Stage[], name: string): Stage[] {
  return stages.filter((stage) => inputsOf(stages, stage.name).includes(name));
}

/** The stages without followers: their results are the result of the run. */
export function lastStages(stages: readonly Ordered[]): string[] {
  return stages.map(({ name }) => name).filter((name) => followersOf(stages, name).length === 0);
}

/** All stages that come before it, directly or not. Stages only follow earlier ones. */
export function stagesBefore(stages: readonly Ordered[], name: string): Set<string> {
  const before = new Set(inputsOf(stages, name));
  for (const { name: each } of stages.toReversed())
    if (before.has(each)) for (const input of inputsOf(stages, each)) before.add(input);
  return before;
}

/** The stages that work on the parts that a stage makes: those after it up to the stages that join. */
export function stagesOnParts(stages: readonly Ordered[], name: string): Set<string> {
  const found = new Set<string>();
  for (const stage of stages) {
    if (stage.joins) continue;
    if (inputsOf(stages, stage.name).some((input) => input === name || found.has(input)))
      found.add(stage.name);
  }
  return found;
}

/**
 * Checks `after` of a stage against the names of the stages that are defined before it. A stage can follow only these,
 * so there are no cycles, and every stage can be reached.
 */
export function checkAfter({ name, after }: Ordered, earlier: readonly string[], pipeline: string): void {
  if (after === undefined) return;
  const stage = `Stage "${name}" of pipeline "${pipeline}"`;
  const names: unknown[] = Array.isArray(after) ? after : [after];
  if (earlier.length === 0) throw invalid(`${stage} is the first, and cannot come after another.`);
  if (Array.isArray(after) && names.length < 2)
    throw invalid(
      `${stage} merges the stages of a list, at least two; got ${show(after)}. ` +
        `To follow one stage, give its name without the list.`,
    );
  if (new Set(names).size < names.length)
    throw invalid(`${stage} names a stage twice in \`after\`: ${show(after)}.`);
  for (const each of names) {
    if (typeof each === "string" && earlier.includes(each)) continue;
    if (each === name) throw invalid(`${stage} cannot come after itself.`);
    throw invalid(
      `${stage} comes after ${show(each)}, which is not defined before it; so far there are ${show(earlier)}. ` +
        `Define stages in an order in which each comes after those that it needs: then no cycle is possible.`,
    );
  }
}
