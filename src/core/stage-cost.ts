import { invalid } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import { checkNumber, checkObject } from "./options.ts";
import type { NextTask, RunStart, Stage } from "./run.ts";
import { show } from "./show.ts";
import type { NewTask } from "./task.ts";

/**
 * What the tasks of a stage take of limits that have a unit. A number is part of the run's list of stages. A function of the
 * input runs where the input is made: the process that acks the stage before calls it, and sends the costs with its ack.
 */

/** In place of a number: the cost is a function of the input, so that whoever adds the task says it. */
export const BY_INPUT = "input";

export type StageCost = number | typeof BY_INPUT;

/** With an ack: what the tasks cost that follow in its run, in order. */
export interface NextCosts {
  /** Only where this stage is the one that follows; absent: whichever does. */
  stage?: string;
  costs: number[];
}

/** What a number, or a function of the input, comes to. */
export function costFrom<Input>(
  cost: number | ((input: Input) => number),
  input: Input,
  what: string,
): number {
  return checkNumber(typeof cost === "function" ? cost(input) : cost, what, 0, LIMITS.cost);
}

/** Refuses in words what is no cost of a stage. */
export function checkStageCost({ name, joins, cost }: Stage, pipeline: string): void {
  if (cost === undefined) return;
  const what = `The cost of stage "${name}" of pipeline "${pipeline}"`;
  if (cost !== BY_INPUT) checkNumber(cost, what, 0, LIMITS.cost);
  else if (joins)
    throw invalid(
      `${what} must be a number: its input is known only to the store, which joins it. Correct it with task.spend().`,
    );
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

/** Tasks of a stage, with their costs. Throws INVALID where nobody said a cost that has to be said. */
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
      `${tasks.length} tasks follow in stage "${stage.name}" of pipeline "${pipeline}", and ${said.length} costs were given.`,
    );
  }
  if (stage.cost === BY_INPUT && tasks.length > 0) throw missingCost(pipeline, stage.name);
  const { cost } = stage;
  return typeof cost === "number" ? tasks.map((task) => ({ ...task, cost })) : tasks;
}

/** The first task of a run, with the cost of its stage where it has none of its own. */
export function withFirstCost(task: NewTask): NewTask {
  const cost = task.run?.stages[0]?.cost;
  return task.cost === undefined && typeof cost === "number" ? { ...task, cost } : task;
}

/** A guess would break the limit that the cost is for. */
export function missingCost(pipeline: string, stage: string): Error {
  return invalid(
    `Stage "${stage}" of pipeline "${pipeline}" computes its cost from its input, and no cost was given. Work on the stage before ` +
      `it, and begin runs, with the pipeline's definition; over HTTP give the cost.`,
  );
}
