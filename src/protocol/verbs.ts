import type { AnswerKind } from "../core/answer/answer-budget.ts";
import type { TaskChange } from "../core/task/change.ts";
import type { Port } from "../core/port.ts";
import type { NewTask } from "../core/task/task.ts";

/** The verbs of the port that are calls. Events, close and the clock are handled separately. */
export type WireVerb = Exclude<keyof Port, "clock" | "documents" | "events" | "close">;

export interface Traits {
  /** How many arguments cross the wire. Later ones, such as a transaction or a listener, cannot. */
  args: number;
  /**
   * What to do with a call whose answer is missing after the server restarted, because it may or may not have been
   * executed. "safe": executing it twice has the same effect as once, so it is sent again. "never": its caller gets
   * OUTCOME_UNKNOWN. "ledger": it is sent again, and if the claim is gone, the task's ledger tells whether this client
   * ended it.
   */
  again: "safe" | "never" | "ledger" | ((args: unknown[]) => boolean);
  /** Changes nothing: a missing answer is harmless. */
  reads?: boolean;
  /** May take arbitrarily long: it waits through an outage. */
  patient?: boolean;
  /** Its answer may be large: memory for it is reserved before the call starts. */
  answers?: AnswerKind;
}

/** The port's verbs on the wire. A new verb needs a line here. */
export const VERBS: Record<WireVerb, Traits> = {
  declare: { args: 3, again: "safe" },
  pause: { args: 2, again: "safe" },
  // A second call would answer that there is no hold.
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
  // A second call would add a second task.
  fireSchedule: { args: 1, again: "never" },
  schedules: { args: 1, again: "safe", reads: true, answers: "page" },
  // The same holder may repeat it; at worst, its decisions are stored twice.
  supervise: { args: 1, again: "safe" },
  supervised: { args: 2, again: "safe", reads: true, answers: "page" },
  decisions: { args: 3, again: "safe", reads: true, answers: "page" },
  // Tasks of an unanswered claim are released before it is sent again: a worker's by rejoining, others by their lease.
  claim: { args: 1, again: "safe", answers: "later" },
  settle: { args: 2, again: "ledger" },
  extend: { args: 2, again: "safe" },
  // A resend may append a line of the log twice.
  progress: { args: 4, again: "safe" },
  step: { args: 3, again: "safe" },
  // Its children have names: a second call finds them.
  spawn: { args: 2, again: "safe" },
  children: { args: 2, again: "safe", reads: true, answers: "page" },
  steps: { args: 1, again: "safe", reads: true, answers: "page" },
  // A second call would answer that the signal was not stored.
  signal: { args: 4, again: "never" },
  verifying: { args: 1, again: "safe", reads: true, answers: "row" },
  task: { args: 1, again: "safe", reads: true, answers: "row" },
  history: { args: 1, again: "safe", reads: true, answers: "page" },
  cancel: { args: 1, again: "safe" },
  // A second call to run a task again is refused, and a second update is the same as the first.
  change: { args: 2, again: ([, change]) => (change as Partial<TaskChange> | null)?.kind !== "again" },
  end: { args: 2, again: "safe", reads: true, patient: true, answers: "later" },
  list: { args: 1, again: "safe", reads: true, answers: "page" },
  definePipeline: { args: 2, again: "safe" },
  pipelines: { args: 1, again: "safe", reads: true, answers: "page" },
  run: { args: 2, again: "safe", reads: true, answers: "page" },
  runs: { args: 1, again: "safe", reads: true, answers: "page" },
  cancelRun: { args: 1, again: "safe" },
  patterns: { args: 3, again: "safe", reads: true, answers: "page" },
  redrive: { args: 4, again: "never" },
  discard: { args: 2, again: "never" },
  // An unknown session ends with its lease.
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
