import { invalid } from "./errors.ts";
import { byteLength, isLarger, LIMITS, tooLarge, tooMuchGathered } from "./limits.ts";
import { checkNames, checkObject } from "./options.ts";
// Only functions call each other: a line and a graph are two cases of one plan.
// oxlint-disable-next-line import/no-cycle
import { neededOfGraph, planGraph, type StageCounts } from "./graph-plan.ts";
import type { QueuePolicy } from "./policy.ts";
import { checkQueueName, LONGEST_NAME } from "./queue-name.ts";
import { show } from "./show.ts";
import { checkAfter, isGraph, isMerging, type Ordered } from "./stage-graph.ts";
import {
  BY_INPUT,
  checkCostsOfForks,
  checkStageCost,
  missingCost,
  type NextCosts,
  type StageCost,
  withCosts,
} from "./stage-cost.ts";
import { type Body, END_STATES, type NewTask, type TaskState } from "./task.ts";

/**
 * A run is one input on its way through the stages of a pipeline. Each stage has a queue. When a task of a run
 * succeeds, the engine adds the next one in the same commit, by the list of stages that the run began with. The engines
 * call planNextStage.
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
  /** Also from there: the stages whose results it gets as an object. */
  after?: string[];
}

/** A stage of a run, as its tasks show it. */
export function placeAt({ stages, ...run }: RunStart & { id: string }, at: At): RunPlace {
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
    throw invalid(`Pipeline ${show(pipeline)} needs 1 to ${MOST_STAGES} stages.`);
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
      throw invalid(`A stage cannot be called "verify"; that name is reserved for verification queues.`);
    if (names.has(name)) throw invalid(`Pipeline "${pipeline}" has two stages called "${name}".`);
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

/** The next task of a run. */
export interface NextTask {
  queue: string;
  stage: string;
  part: number[];
  data: Body;
  cost?: number;
}

/** What follows the success of a task. Without tasks, the part has arrived, and waits for the other parts. */
export interface NextStage {
  tasks: NextTask[];
  /** Its result is one of those that the join gets. False if it was split into parts. */
  storesResult: boolean;
}

export type At = Pick<RunPlace, "stage" | "part">;

/** What the holder reports about a task of a run that succeeded. */
export interface Success {
  result: Body | null;
  /** The result is a JSON array, and each item becomes a part. */
  each?: boolean;
  next?: NextCosts;
}

export function costsOfNothing(stage: string): Error {
  return invalid(
    `Costs were given with the ack of stage "${stage}", but no task follows that they could apply to.`,
  );
}

/** What follows a task. Throws INVALID if the stage returned something that its pipeline cannot continue with. */
function nextStageAfter(run: RunStart, at: At, { result, each = false, next: costs }: Success): NextStage {
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

export function noStageForParts({ pipeline }: RunStart, stage: string, next: Stage | undefined): Error {
  return invalid(
    next
      ? `Stage "${stage}" of pipeline "${pipeline}" returned each(), and the stage after it, "${next.name}", joins: ` +
          `there is none that would work on the parts. Return the array itself, or put a stage between them.`
      : `Stage "${stage}" is the last of pipeline "${pipeline}" and returned each(): there is no stage for the parts. ` +
          `Return the array itself.`,
  );
}

export function itemsOf(result: Body | null, stage: string): string[] {
  const items = listFrom(result);
  if (!Array.isArray(items)) throw invalid(`each() takes an array; stage "${stage}" gave it ${show(items)}.`);
  if (items.length > LIMITS.addBatch) {
    throw invalid(
      `each() makes at most ${LIMITS.addBatch} parts at once; stage "${stage}" returned ${items.length}. ` +
        `Make fewer, larger ones: a part may itself return each().`,
    );
  }
  return items.map((item) => JSON.stringify(item));
}

function listFrom(result: Body | null): unknown {
  try {
    return JSON.parse(result as string);
  } catch {
    return result;
  }
}

/** The next stage that joins the parts; undefined: the run is done. */
export function joinAfter(run: RunStart, stage: string): Stage | undefined {
  const index = run.stages.findIndex(({ name }) => name === stage);
  return run.stages.slice(index + 1).find(({ joins }) => joins);
}

/** The results of the parts, in their order, as a JSON array. Bytes become base64. */
export function gather(results: readonly (Body | null)[]): string {
  return `[${results.map(textOf).join(",")}]`;
}

export function textOf(result: Body | null): string {
  if (result === null) return "null";
  return typeof result === "string" ? result : JSON.stringify(Buffer.from(result).toString("base64"));
}

/** A part as text that sorts like parts do: each() makes fewer than 100,000 at once. */
export function formatPart(part: readonly number[]): string {
  return part.map((index) => String(index).padStart(5, "0")).join("/");
}

export function parsePart(text: string): number[] {
  return text === "" ? [] : text.split("/").map(Number);
}

/** A task of a run as the engine adds it. */
export interface RunTask extends Omit<NewTask, "run"> {
  at: Pick<RunPlace, "id" | "stage" | "part" | "joins"> & { merges?: true };
}

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

/** What an engine knows about a run when one of its tasks succeeds. */
export interface RunUnderWay extends RunStart {
  id: string;
  /** Tasks of the run that are not done. */
  underWay: number;
  /** Tasks that are not done, by stage, if its stages are a graph. */
  counts: StageCounts | null;
  /** Stored results, as far as `neededResults` says. */
  partResults(): PartResult[];
}

export interface PartResult {
  stage: string;
  part: number[];
  result: Body | null;
}

/** What the success of a task means for its run. */
export interface Plan {
  tasks: RunTask[];
  underWay: number;
  counts: StageCounts | null;
  /** The result of this task must be stored until the join. */
  storesResult: boolean;
  /** The join uses the stored results up. */
  joinsResults: boolean;
  /** The run is done with this task. */
  end: { result: Body | null } | null;
}

/** Priority and headers are passed on in the run. Other options of its first task are not. */
type Carried = Pick<NewTask, "priority" | "headers">;

/** Which stored results the plan reads: of all parts of the run, of the same part, or none. */
export function neededResults(run: RunUnderWay, at: At): "all" | "part" | "none" {
  if (run.counts) return neededOfGraph(run, at);
  // Without parts there are no stored results.
  return at.part.length > 0 && run.underWay === 1 ? "all" : "none";
}

export function planNextStage(run: RunUnderWay, at: At, carried: Carried, success: Success): Plan {
  if (run.counts) {
    const { tasks: next, ...planned } = planGraph(run, at, success);
    const stageOf = (name: string): Stage => run.stages.find((stage) => stage.name === name)!;
    return {
      ...planned,
      tasks: next.map((task) => runTask(run, task, stageOf(task.stage), carried)),
      underWay: run.underWay + next.length - 1,
      joinsResults: planned.end !== null,
    };
  }
  const { result, each = false } = success;
  const onward = nextStageAfter(run, at, success);
  const tasks = onward.tasks.map((next) => runTask(run, next, { joins: false }, carried));
  const underWay = run.underWay + tasks.length - 1;
  const goingOn = { tasks, underWay, counts: null, joinsResults: false, end: null };
  if (underWay > 0) return { ...goingOn, storesResult: tasks.length === 0 && onward.storesResult };
  // No other task of the run is in progress: all parts have arrived.
  const { pipeline } = run;
  const join = joinAfter(run, at.stage);
  if (!join && !each && at.part.length === 0) return { ...goingOn, storesResult: false, end: { result } };
  const own = onward.storesResult ? [{ stage: at.stage, part: at.part, result }] : [];
  const all = gather(
    [...run.partResults(), ...own]
      .map(({ part, result: partResult }) => ({ key: formatPart(part), partResult }))
      .sort((a, b) => (a.key < b.key ? -1 : 1))
      .map(({ partResult }) => partResult),
  );
  if (isLarger(all, LIMITS.gatheredBytes)) throw tooMuchGathered(byteLength(all));
  if (!join) return { ...goingOn, storesResult: false, joinsResults: true, end: { result: all } };
  const joined = { queue: stageQueue(pipeline, join.name), stage: join.name, part: [], data: all };
  const [next] = withCosts(run, join, [joined], undefined);
  return {
    tasks: [runTask(run, next!, join, carried)],
    ...{ underWay: 1, counts: null, storesResult: false, joinsResults: true, end: null },
  };
}

function runTask(
  { id }: RunUnderWay,
  { queue, stage, part, data, cost }: NextTask,
  { joins, after }: Pick<Stage, "joins" | "after">,
  { priority, headers }: Carried,
): RunTask {
  return {
    ...{
      queue,
      data,
      at: { id, stage, part, joins, ...(Array.isArray(after) && { merges: true as const }) },
    },
    ...(typeof data !== "string" && { contentType: "application/octet-stream" }),
    ...(priority !== undefined && priority !== 0 && { priority }),
    ...(headers !== undefined && { headers }),
    ...(cost !== undefined && { cost }),
  };
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
      ? `Task ${id} does not belong to a run of a pipeline: each() can make no parts.`
      : `Task ${id} does not belong to a run of a pipeline: no task follows that the given costs could apply to.`,
  );
}

/** A verdict would end the stage, and nothing would follow. */
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
