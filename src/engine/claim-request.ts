import type { QueuePolicy } from "../core/queue/policy.ts";
import type { ClaimedTask } from "../core/task/task.ts";

/** The input and the answer of the verb `claim`. */

export interface ClaimRequest {
  queues: string[];
  max: number;
  /** The worker instance. A failed task is offered first to workers that have not failed it. */
  worker: string;
  share?: number;
  session?: number;
  /** The lease of a manual claim; the queue's lease if absent. */
  lease?: number;
  /**
   * Set if the caller keeps waiting when nothing is found: a number that identifies the waiting claim. An engine that
   * learns of other processes' commits earlier than its caller may retry the claim itself, and reports that in a hint
   * (`retriedClaim`).
   */
  waitingId?: number;
}

export interface ClaimOutcome {
  tasks: ClaimedTask[];
  /** The policies of the tasks' queues: the worker needs them for timeouts and retries. */
  policies: Record<string, QueuePolicy>;
  /** There are tasks that only other workers may claim, because this worker failed them. */
  passed: boolean;
  /** The call reached its bound of work or of answer size before `max`: call again. */
  more: boolean;
}
