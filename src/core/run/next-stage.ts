import { neededOfGraph, planGraph } from "./graph-plan.ts";
import { planLine } from "./line-plan.ts";
import type { RunTask, Stage } from "./run.ts";
import type { At, Following, NextTask, RunUnderWay, Success } from "./run-success.ts";
import type { NewTask } from "../task/task.ts";

/**
 * What follows when a task of a run succeeds. The engines ask planNextStage, and add its tasks in the commit of the
 * success. Stages that follow each other are a line; with branches or merges, they are a graph.
 */

/** What the success of a task means for its run. */
export interface Plan extends Omit<Following, "tasks"> {
  tasks: RunTask[];
  underWay: number;
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
  const following = run.counts ? planGraph(run, at, success) : planLine(run, at, success);
  const stageOf = (name: string): Stage => run.stages.find((stage) => stage.name === name)!;
  return {
    ...following,
    tasks: following.tasks.map((task) => runTask(run, task, stageOf(task.stage), carried)),
    underWay: run.underWay + following.tasks.length - 1,
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
