import { DibsError } from "../errors/errors.ts";
import { isLarger, tooLarge } from "../input/limits.ts";
import type { QueuePolicy } from "../queue/policy.ts";
import { type Body, isEnd, type TaskState } from "./task.ts";

/**
 * Changes of a task by an operator or its producer: the verb `change`. All engines ask these functions what a change
 * does. Durations are milliseconds.
 */
export type TaskChange =
  /** An update of a task that is not claimed. With a `delay` of 0 it is ready now. */
  | ({ kind: "update" } & TaskUpdate)
  /** A scheduled task is due now. */
  | { kind: "promote" }
  /**
   * A task that has ended becomes ready again, at the end of the line: as a redrive does for dead ones. With `fresh`, a
   * dead task runs without the steps that it has stored.
   */
  | { kind: "again"; fresh?: boolean };

export interface TaskUpdate {
  priority?: number;
  delay?: number;
  data?: Body;
  /** Of `data`; JSON unless set. */
  contentType?: string;
}

/** What a change needs to know of a task. */
export interface Changing {
  id: string;
  state: TaskState;
  ofRun: boolean;
}

/** Refuses a change that the state of the task does not allow. */
export function checkChange(change: TaskChange, { id, state, ofRun }: Changing): void {
  if (change.kind === "again") {
    if (!isEnd(state)) throw wrongState(id, `is ${state}, and only a task that has ended runs again`);
    // The tasks that follow it in its run exist already, or were cancelled with the run.
    if (ofRun && state !== "dead")
      throw wrongState(id, `is ${state}, and part of a run. Start a new run instead`);
    return;
  }
  if (state === "ready" || state === "waiting" || state === "scheduled") return;
  throw wrongState(id, `is ${state}, and ${REASONS[state]}`);
}

const REASONS: Record<Exclude<TaskState, "ready" | "waiting" | "scheduled">, string> = {
  claimed: "a worker has it. Wait until it ends, or cancel it",
  parked: "waits for a signal. Send the signal, or cancel the task",
  verifying: "its result waits for a verdict",
  done: "has ended. To run it again, use runAgain",
  dead: "has ended. To run it again, redrive it",
  cancelled: "has ended. To run it again, use runAgain",
  expired: "has ended. To run it again, use runAgain",
};

function wrongState(id: string, why: string): DibsError {
  return new DibsError("WRONG_STATE", `Task ${id} ${why}. Nothing was changed.`);
}

export function checkNewPayload({ data }: TaskUpdate, queue: string, policy: QueuePolicy): void {
  if (data !== undefined && isLarger(data, policy.maxPayload))
    throw tooLarge("The payload", data, policy.maxPayload, queue);
}

/** Where the task goes: nowhere, into the line, or back into the schedule. */
export type Destination = { to: "stay" } | { to: "line" } | { to: "schedule"; delay: number };

export function destinationOf(change: Exclude<TaskChange, { kind: "again" }>, state: TaskState): Destination {
  const delay = change.kind === "promote" ? 0 : change.delay;
  if (delay === undefined) return { to: "stay" };
  if (delay > 0) return { to: "schedule", delay };
  return { to: state === "scheduled" ? "line" : "stay" };
}

/**
 * Whether a task that is scheduled by a change still blocks its group. A task that has failed keeps its position, as
 * after the failure. Any other task joins its group when it is due, like one that was added with a delay.
 */
export function goesOnBlocking(
  task: { blocksGroup: boolean; failures: number },
  stepsAside: boolean,
): boolean {
  return task.blocksGroup && task.failures > 0 && !stepsAside;
}

/** The line that `history` shows with the last attempt of a task that runs again. */
export function againNote(state: TaskState): string {
  return `Runs again. It was ${state}.`;
}
