import { invalid } from "../errors/errors.ts";
import { isLarger, LIMITS, tooLarge } from "../input/limits.ts";
import { checkNames, checkObject } from "../input/options.ts";
import type { QueuePolicy } from "../queue/policy.ts";
import { checkQueueName, LONGEST_NAME } from "../queue/queue-name.ts";
import { show } from "../errors/show.ts";
import { checkAfter, isGraph, isMerging, type Ordered } from "./stage-graph.ts";
import { BY_INPUT, checkCostsOfForks, checkStageCost, missingCost, type StageCost } from "./stage-cost.ts";
import { type Body, END_STATES, type NewTask, type TaskState } from "../task/task.ts";

/**
 * A run is one input on its way through the stages of a pipeline. Each stage has a queue. When a task of a run
 * succeeds, the engine adds the next one in the same commit, by the list of stages that the run began with:
 * next-stage.ts.
 */

export interface Stage extends Ordered {
  /** What its tasks cost in rate limits with a unit: stage-cost.ts. Default 1. */
  cost?: StageCost;
}

/** What a task needs to begin a run. The task belongs to the first stage. */
export interface RunStart {
  pipeline: string;
  stages: Stage[];
}

/** Where a task is in its run. The run's id is the id of its first task. */
export interface RunPlace {
  id: string;
  pipeline: string;
  stage: string;
  /** Which part of the run it is, after `each`. [2, 0] is the first part of the third part. */
  part: number[];
  /** From the definition that the run began with. */
  joins: boolean;
  /** The stages whose results it gets as an object, from the definition that the run began with. */
  after?: string[];
}

/** A stage of a run, as its tasks show it. */
export function placeAt(
  { stages, ...run }: RunStart & { id: string },
  at: Pick<RunPlace, "stage" | "part">,
): RunPlace {
  const stage = stages.find(({ name }) => name === at.stage)!;
  const { joins } = stage;
  return {
    ...{ id: run.id, pipeline: run.pipeline, stage: at.stage, part: at.part, joins },
    ...(isMerging(stage) && { after: stage.after }),
  };
}

/** `dead`: a part is dead, and may be redriven. */
export const RUN_STATES = ["running", ...END_STATES] as const;
export type RunState = (typeof RUN_STATES)[number];

export interface RunRecord extends RunStart {
  id: string;
  state: RunState;
  createdAt: number;
  endedAt: number | null;
}

/** One task of a run. Also returned when the task itself has been removed. */
export interface RunPart {
  id: string;
  queue: string;
  stage: string;
  part: number[];
  state: TaskState;
  createdAt: number;
  startedAt: number | null;
  endedAt: number | null;
}

export function stageQueue(pipeline: string, stage: string): string {
  return `${pipeline}/${stage}`;
}

const MOST_STAGES = 100;
const STAGE_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?$/;

/** Checks the definition of a pipeline. */
export function checkStages(pipeline: string, stages: Stage[]): void {
  checkQueueName(pipeline);
  if (!Array.isArray(stages) || stages.length === 0 || stages.length > MOST_STAGES) {
    throw invalid(
      `Pipeline ${show(pipeline)} needs an array of 1 to ${MOST_STAGES} stages; got ${show(stages)}.`,
    );
  }
  const names = new Set<string>();
  for (const stage of stages) {
    checkObject(stage, "A stage");
    const { name } = stage;
    if (typeof name !== "string" || name.length > LONGEST_NAME || !STAGE_NAME.test(name)) {
      throw invalid(
        `A stage's name has 1 to ${LONGEST_NAME} ASCII letters and digits, and _ . - between them; got ${show(name)} in pipeline "${pipeline}".`,
      );
    }
    // Otherwise its queue would be the verification queue of a queue with the pipeline's name.
    if (name === "verify")
      throw invalid(
        `A stage cannot be called "verify"; that name is reserved for verification queues. Give it another name.`,
      );
    if (names.has(name))
      throw invalid(`Pipeline "${pipeline}" has two stages called "${name}". Rename one of them.`);
    checkAfter(stage, [...names], pipeline);
    names.add(name);
    checkStageCost(stage, pipeline);
    checkQueueName(stageQueue(pipeline, name));
  }
  checkCostsOfForks(stages, pipeline);
  if (stages[0]!.joins) {
    throw invalid(
      `The first stage of pipeline "${pipeline}", "${stages[0]!.name}", cannot join: nothing comes before it.`,
    );
  }
}

/** A task of a run as the engine adds it. */
export interface RunTask extends Omit<NewTask, "run"> {
  at: Pick<RunPlace, "id" | "stage" | "part" | "joins"> & { merges?: true };
}

/** Tasks that are not done, by stage, of a run whose stages are a graph. A stage is in it since its first task. */
export type StageCounts = Record<string, number>;

/** Of a run that begins. Null: its stages follow each other, and one number is enough. */
export function firstCounts(stages: readonly Stage[]): StageCounts | null {
  return isGraph(stages) ? { [stages[0]!.name]: 1 } : null;
}

/** As engines store them. */
export function countsText(counts: StageCounts | null): string | null {
  return counts && JSON.stringify(counts);
}

export function countsFrom(json: string | null): StageCounts | null {
  return json === null ? null : (JSON.parse(json) as StageCounts);
}

/** Joined and merged results have a size limit of their own. */
export function isGathered(task: NewTask | RunTask): boolean {
  return "at" in task && (task.at.joins || task.at.merges === true);
}

/** A result that is split into parts has the limit of joined results. */
export function checkResult(
  result: Body | null,
  { maxPayload }: Pick<QueuePolicy, "maxPayload">,
  each: boolean,
  queue: string,
): void {
  const most = each ? LIMITS.gatheredBytes : maxPayload;
  if (result !== null && isLarger(result, most)) throw tooLarge("The result", result, most, queue);
}

export function notOfRun(id: string, { each }: { each?: boolean }): Error {
  return invalid(
    each
      ? `Task ${id} does not belong to a run of a pipeline, so each() can make no parts. Return the array itself.`
      : `Task ${id} does not belong to a run of a pipeline: no task follows that the given costs could apply to. Leave them out.`,
  );
}

/** A task of a run cannot give a verdict: that would end its stage, and no task of the run would follow. */
export function verdictOfStage(id: string): Error {
  return invalid(
    `Task ${id} is a stage of a run and cannot give a verdict. Ack it with the input of the next stage.`,
  );
}

/** Checks a task that begins a run. */
export function checkRunStart(run: RunStart, { queue, cost }: NewTask): void {
  checkObject(run, "A run");
  checkNames(run, ["pipeline", "stages"], "run");
  checkStages(run.pipeline, run.stages);
  const first = stageQueue(run.pipeline, run.stages[0]!.name);
  if (queue !== first)
    throw invalid(`A run of pipeline "${run.pipeline}" begins in queue "${first}", not in "${queue}".`);
  const [{ name, cost: its }] = run.stages as [Stage];
  if (its === BY_INPUT && cost === undefined) throw missingCost(run.pipeline, name);
}
