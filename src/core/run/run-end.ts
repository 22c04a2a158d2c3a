import type { RunState } from "./run.ts";
import type { EndState } from "../task/task.ts";

/** What the end of one task means for its run, and what the state of a run is. The engines carry it out. */

/** How a run can end. A dead part does not end its run, because a redrive may continue it. */
export type RunEnd = Exclude<EndState, "dead">;

/**
 * `report`: callers that wait for the run get an error, because it is dead. `end`: the run can have no result any more.
 */
export type RunEffect = { kind: "none" } | { kind: "report" } | { kind: "end"; state: RunEnd };

/**
 * What the end of a task without success means for its run. planNextStage (next-stage.ts) decides what follows a
 * success. `runState`: null while the run is in progress.
 */
export function effectOnRun(end: EndState, runState: RunEnd | null): RunEffect {
  if (end === "done" || runState !== null) return { kind: "none" };
  return end === "dead" ? { kind: "report" } : { kind: "end", state: end };
}

/**
 * A removed task ends its run, unless the task had ended. A dead task counts as not ended, because it could have been
 * redriven.
 */
export function losesResult(removed: EndState | null): boolean {
  return removed === null || removed === "dead";
}

/** `dead`: how many of its tasks are dead. */
export function stateOfRun({ state, dead }: { state: RunEnd | null; dead: number }): RunState {
  return state ?? (dead > 0 ? "dead" : "running");
}

/** Whether the end of a run cancels its unfinished tasks and drops its stored results. A done run has neither. */
export function cancelsRest(state: RunEnd): boolean {
  return state !== "done";
}
