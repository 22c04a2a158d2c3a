import { invalid } from "../core/errors/errors.ts";
import { checkNames, checkObject } from "../core/input/options.ts";
import { DEFAULT_POLICY } from "../core/queue/policy.ts";
import { checkStages, type RunPlace, type Stage, stageQueue } from "../core/run/run.ts";
import { BY_INPUT, costFrom } from "../core/run/stage-cost.ts";
import { inputsOf } from "../core/run/stage-graph.ts";
import { resolveWork, type WorkOptions } from "../worker/options.ts";
import type { Handler, Task } from "../worker/task.ts";
import { type Encode, splitOptions } from "./definition.ts";
import type { AfterOption, StageOptions } from "./pipeline-types.ts";
import { checkHandler, type Owner, Queue } from "./queue.ts";

/** A stage with its handler: what pipeline.ts makes of the arguments of `stage()` and `join()`. */
export interface DefinedStage extends Stage {
  costOf: ((input: unknown) => number) | undefined;
  handler: Handler<never>;
  work: WorkOptions;
  queue: Queue;
  encode: Encode;
}

const NAMES = [
  ...Object.keys(DEFAULT_POLICY),
  ...["schema", "result", "concurrency", "prefetch", "name", "on", "cost", "after"],
];

/** `before`: the stages that were defined before. */
export function defineStage(
  owner: Owner,
  pipeline: string,
  before: readonly DefinedStage[],
  {
    name,
    joins,
    handler,
    options,
  }: {
    name: string;
    joins: boolean;
    handler: Handler<never>;
    options: StageOptions<never> & AfterOption<unknown>;
  },
): DefinedStage {
  checkHandler(handler, joins ? "join" : "stage", "second");
  checkObject(options, "The options of a stage");
  checkNames(options, NAMES, `stage "${name}"`);
  const { concurrency, prefetch, name: label, on, cost: given, after, ...rest } = options;
  const cost = typeof given === "function" ? BY_INPUT : given;
  const stage: Stage = {
    ...{ name, joins },
    ...(after !== undefined && { after: copyOf(after) }),
    ...(cost !== undefined && { cost }),
  };
  const stages = [...before, stage];
  checkStages(pipeline, stages);
  if (rest.schema !== undefined && before.length > 0) {
    throw invalid(
      `schema: only the first stage takes data from outside; let the stage before "${name}" have a \`result\` instead.`,
    );
  }
  const work = { concurrency, prefetch, name: label, on };
  resolveWork(work);
  const queue = new Queue(owner, stageQueue(pipeline, name), rest);
  const costOf =
    typeof given === "function"
      ? (input: unknown) =>
          costFrom(given as (input: unknown) => number, input, `The cost of stage "${name}"`)
      : undefined;
  // checkStages refuses a cost that is a function if other stages follow the same one.
  const [previous] = costOf ? inputsOf(stages, name) : [];
  const known = before.find((each) => each.name === previous);
  if (known && costOf) known.queue.nextCost = { stage: name, of: costOf };
  return { ...stage, costOf, handler, work, queue, encode: splitOptions(rest).encodeData };
}

/** Copies `after`, because the caller may change its array later. */
function copyOf(after: unknown): NonNullable<Stage["after"]> {
  return Array.isArray(after) ? [...(after as string[])] : (after as string);
}

/** The stage's handler. It fails if the task's run began with another definition of the stage. */
export function handlerOf(pipeline: string, stage: DefinedStage): (task: Task) => unknown {
  return (task) => {
    if (task.run && task.run.joins !== stage.joins) throw joinMismatch(pipeline, stage, task.run.id);
    if (task.run && mergedBy(task.run) !== mergedBy(stage)) throw mergeMismatch(pipeline, stage, task.run);
    return (stage.handler as Handler)(task);
  };
}

/** Fails the attempt, because another worker may still have the definition that the run began with. */
function joinMismatch(pipeline: string, { name, joins }: Stage, run: string): Error {
  return new Error(
    `Stage "${name}" of pipeline "${pipeline}" ${joins ? "joins" : "does not join"} parts in this worker's definition, but ` +
      `${joins ? "did not" : "did"} when run ${run} began. Keep a worker with that definition, or give the stage another name.`,
  );
}

/** The stages whose results the stage merges: the handler gets an object with a field for each. */
function mergedBy({ after }: Pick<Stage, "after">): string {
  return Array.isArray(after) ? after.toSorted().join(", ") : "";
}

function mergeMismatch(pipeline: string, stage: Stage, run: RunPlace): Error {
  const [here, there] = [mergedBy(stage), mergedBy(run)];
  return new Error(
    `Stage "${stage.name}" of pipeline "${pipeline}" merges ${here || "no other stages"} in this worker's definition, but ` +
      `merged ${there || "none"} when run ${run.id} began. Keep a worker with that definition, or give the stage another name.`,
  );
}
