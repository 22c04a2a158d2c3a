import { invalid } from "../errors/errors.ts";
import { LIMITS } from "../input/limits.ts";
import type { RunPlace, RunStart, Stage, StageCounts } from "./run.ts";
import type { PartResult } from "./run-part.ts";
import { show } from "../errors/show.ts";
import type { NextCosts } from "./stage-cost.ts";
import type { Body } from "../task/task.ts";

/**
 * The success of a task of a run, and what follows it: what both plans (line-plan.ts, graph-plan.ts) get and return, and
 * the errors that they share.
 */

export type At = Pick<RunPlace, "stage" | "part">;

/** What the holder reports about a task of a run that succeeded. */
export interface Success {
  result: Body | null;
  /** The result is a JSON array, and each item becomes a part. */
  each?: boolean;
  next?: NextCosts;
}

/** What an engine knows about a run when one of its tasks succeeds. */
export interface RunUnderWay extends RunStart {
  id: string;
  /** Tasks of the run that are not done. */
  underWay: number;
  /** The number of tasks that are not done, by stage; only if the stages are a graph. */
  counts: StageCounts | null;
  /** Stored results, as far as `neededResults` says. */
  partResults(): PartResult[];
}

/** The next task of a run. */
export interface NextTask {
  queue: string;
  stage: string;
  part: number[];
  data: Body;
  cost?: number;
}

/** What a plan returns. Without tasks, the part has arrived, and waits for the other parts. */
export interface Following {
  tasks: NextTask[];
  /** See RunUnderWay. */
  counts: StageCounts | null;
  /** The result of this task must be stored until the join. */
  storesResult: boolean;
  /** The join consumes the stored results. */
  joinsResults: boolean;
  /** The run is done with this task. */
  end: { result: Body | null } | null;
}

export function costsOfNothing(stage: string): Error {
  return invalid(
    `Costs were given with the ack of stage "${stage}", but no task follows that they could apply to. Leave them out.`,
  );
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
