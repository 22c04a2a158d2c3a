import type { RunState } from "./run.ts";
import type { EndState } from "../task/task.ts";

/** What the end of one task means for its run, and what the state of a run is. The engines carry it out. */

/** A run's own end. A dead part does not end its run: a redrive may continue it. */
export type RunEnd = Exclude<EndState, "dead">;

/** `report`: the callers that wait for the run are told that it is dead. `end`: it can have no result any more. */
export type RunEffect = { kind: "none" } | { kind: "report" } | { kind: "end"; state: RunEnd };

/**
 * A task of the run has reached an end. What follows a success is decided by planNextStage (run.ts). `runState`: null
 * while the run is in progress.
 */
export function effectOnRun(end: EndState, runState: RunEnd | null): RunEffect {
  if (end === "done" || runState !== null) return { kind: "none" };
  return end === "dead" ? { kind: "report" } : { kind: "end", state: end };
}

/** A removed task ends its run, unless it had ended before. A dead one could have been redriven. */
export function losesResult(removed: EndState | null): boolean {
  return removed === null || removed === "dead";
}

/** `dead`: how many of its tasks are dead. */
export function stateOfRun({ state, dead }: { state: RunEnd | null; dead: number }): RunState {
  return state ?? (dead > 0 ? "dead" : "running");
}

/** The unfinished tasks of a run are cancelled with it, and stored results are dropped. A done run has neither. */
export function cancelsRest(state: RunEnd): boolean {
  return state !== "done";
}
