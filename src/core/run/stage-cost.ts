import { invalid } from "../errors/errors.ts";
import { LIMITS } from "../input/limits.ts";
import { checkNumber, checkObject } from "../input/options.ts";
import type { NextTask } from "./run-success.ts";
import type { RunStart, Stage } from "./run.ts";
import { show } from "../errors/show.ts";
import { followersOf, inputsOf } from "./stage-graph.ts";
import type { NewTask } from "../task/task.ts";

/**
 * What the tasks of a stage cost in rate limits with a unit. A number is part of the run's list of stages. A function
 * of the input runs where the input is created: the process that acks the previous stage calls it, and sends the costs
 * with its ack.
 */

/** Used instead of a number: the cost is a function of the input, so the caller that adds the task must pass it. */
export const BY_INPUT = "input";

export type StageCost = number | typeof BY_INPUT;

/** Sent with an ack: the costs of the tasks that follow in the run, in order. */
export interface NextCosts {
  /** Apply the costs only if this stage follows; absent: whichever stage follows. */
  stage?: string;
  costs: number[];
}

/** Evaluates a cost that is a number or a function of the input. */
export function costFrom<Input>(
  cost: number | ((input: Input) => number),
  input: Input,
  what: string,
): number {
  return checkNumber(typeof cost === "function" ? cost(input) : cost, what, 0, LIMITS.cost);
}

/** Checks the cost of a stage. */
export function checkStageCost({ name, joins, after, cost }: Stage, pipeline: string): void {
  if (cost === undefined) return;
  const what = `The cost of stage "${name}" of pipeline "${pipeline}"`;
  if (cost !== BY_INPUT) checkNumber(cost, what, 0, LIMITS.cost);
  else if (joins || Array.isArray(after))
    throw invalid(
      `${what} must be a number: its input is known only to the store, which puts it together. Correct it with task.spend().`,
    );
}

/** An ack carries the costs of one stage. */
export function checkCostsOfForks(stages: readonly Stage[], pipeline: string): void {
  for (const { name, cost } of stages) {
    const [before] = cost === BY_INPUT ? inputsOf(stages, name) : [];
    const followers = before === undefined ? [] : followersOf(stages, before);
    if (followers.length < 2) continue;
    throw invalid(
      `The cost of stage "${name}" of pipeline "${pipeline}" must be a number, because ${followers.length} stages come after ` +
        `"${before}", and a cost that is a function of the input works for one. Correct it with task.spend().`,
    );
  }
}

export function checkNextCosts(next: NextCosts): void {
  checkObject(next, "What the next tasks cost");
  const { stage, costs } = next;
  if (stage !== undefined && typeof stage !== "string")
    throw invalid(`The stage that costs are for must be a name; got ${show(stage)}.`);
  if (!Array.isArray(costs) || costs.length > LIMITS.addBatch)
    throw invalid(`costs must be an array of at most ${LIMITS.addBatch} numbers; got ${show(costs)}.`);
  for (const cost of costs) checkNumber(cost, "A cost", 0, LIMITS.cost);
}

/** Adds the costs to the tasks of a stage. Throws INVALID if a required cost is missing. */
export function withCosts(
  { pipeline }: RunStart,
  stage: Stage,
  tasks: NextTask[],
  next: NextCosts | undefined,
): NextTask[] {
  const said = next && (next.stage === undefined || next.stage === stage.name) ? next.costs : undefined;
  if (said) {
    if (said.length === tasks.length) return tasks.map((task, index) => ({ ...task, cost: said[index]! }));
    throw invalid(
      `${tasks.length} tasks follow in stage "${stage.name}" of pipeline "${pipeline}", and ${said.length} costs were given. Give one for each task.`,
    );
  }
  if (stage.cost === BY_INPUT && tasks.length > 0) throw missingCost(pipeline, stage.name);
  const { cost } = stage;
  return typeof cost === "number" ? tasks.map((task) => ({ ...task, cost })) : tasks;
}

/** Adds the cost of the first stage to the first task of a run, unless the task has its own. */
export function withFirstCost(task: NewTask): NewTask {
  const cost = task.run?.stages[0]?.cost;
  return task.cost === undefined && typeof cost === "number" ? { ...task, cost } : task;
}

/** Throw instead of assuming a cost: a wrong one would break the limit that it is for. */
export function missingCost(pipeline: string, stage: string): Error {
  return invalid(
    `Stage "${stage}" of pipeline "${pipeline}" computes its cost from its input, and no cost was given. Work on the stage before ` +
      `it, and begin runs, with the pipeline's definition; over HTTP give the cost.`,
  );
}
