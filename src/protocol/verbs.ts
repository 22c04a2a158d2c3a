import type { AnswerKind } from "../core/answer-budget.ts";
import type { Port } from "../core/port.ts";
import type { NewTask } from "../core/task.ts";

/** Events and the two things a port is, beside its verbs, have a way of their own. */
export type WireVerb = Exclude<keyof Port, "clock" | "events" | "close">;

export interface Traits {
  /** How many arguments cross the wire. What comes after them, such as a transaction or a listener, cannot. */
  args: number;
  /**
   * After a restart of the server nobody knows whether a call was carried out whose answer is missing. "safe": a second
   * time does what once would have done, so it is sent again. "never": its caller is told OUTCOME_UNKNOWN.
   * "ledger": sent again, and if the claim is gone, the task's ledger tells whether that was us.
   */
  again: "safe" | "never" | "ledger" | ((args: unknown[]) => boolean);
  /** Changes nothing: an answer that is missing is no more than that. */
  reads?: boolean;
  /** May take any time to be answered: an outage is waited out. */
  patient?: boolean;
  /** Its answer may be large: room for it is reserved before the call is carried out. */
  answers?: AnswerKind;
}

/** The port's verbs on the wire: a new one is a line here. */
export const VERBS: Record<WireVerb, Traits> = {
  declare: { args: 3, again: "safe" },
  pause: { args: 2, again: "safe" },
  // Whoever asks again is told that nothing is held.
  unhold: { args: 2, again: "never" },
  queues: { args: 1, again: "safe", reads: true, answers: "page" },
  stats: { args: 1, again: "safe", reads: true },
  purge: { args: 1, again: "never" },
  drop: { args: 1, again: "never" },
  add: { args: 1, again: ([tasks]) => Array.isArray(tasks) && tasks.every(hasKey) },
  subscribe: { args: 4, again: "safe" },
  unsubscribe: { args: 2, again: "never" },
  subscriptions: { args: 1, again: "safe", reads: true, answers: "page" },
  publish: { args: 1, again: ([message]) => hasKey(message) },
  schedule: { args: 3, again: "safe" },
  pauseSchedule: { args: 2, again: "safe" },
  unschedule: { args: 1, again: "never" },
  schedules: { args: 1, again: "safe", reads: true, answers: "page" },
  // What an unanswered one brought goes back before it is asked again: a worker's by rejoining, others by their lease.
  claim: { args: 1, again: "safe", answers: "later" },
  settle: { args: 2, again: "ledger" },
  extend: { args: 2, again: "safe" },
  progress: { args: 3, again: "safe" },
  step: { args: 3, again: "safe" },
  steps: { args: 1, again: "safe", reads: true, answers: "page" },
  // Kept once: whoever asks again is told that it came before.
  signal: { args: 3, again: "never" },
  verifying: { args: 1, again: "safe", reads: true, answers: "row" },
  task: { args: 1, again: "safe", reads: true, answers: "row" },
  history: { args: 1, again: "safe", reads: true, answers: "page" },
  cancel: { args: 1, again: "safe" },
  end: { args: 2, again: "safe", reads: true, patient: true, answers: "later" },
  list: { args: 1, again: "safe", reads: true, answers: "page" },
  definePipeline: { args: 2, again: "safe" },
  pipelines: { args: 1, again: "safe", reads: true, answers: "page" },
  run: { args: 2, again: "safe", reads: true, answers: "page" },
  cancelRun: { args: 1, again: "safe" },
  patterns: { args: 3, again: "safe", reads: true, answers: "page" },
  redrive: { args: 4, again: "never" },
  discard: { args: 2, again: "never" },
  // One that nobody knows of ends with its lease.
  join: { args: 2, again: "safe" },
  reconcile: { args: 2, again: "safe" },
  rejoin: { args: 3, again: "never" },
  retire: { args: 1, again: "safe" },
  leave: { args: 2, again: "safe" },
  workers: { args: 1, again: "safe", reads: true, answers: "page" },
};

function hasKey(given: unknown): boolean {
  return (given as Partial<NewTask> | null | undefined)?.idempotencyKey !== undefined;
}

export function isWireVerb(name: unknown): name is WireVerb {
  return typeof name === "string" && Object.hasOwn(VERBS, name);
}
