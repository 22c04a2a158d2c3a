import type { Duration } from "../core/time/duration.ts";
import type { HeldBack, QueueStats as StoredStats } from "../core/task/task.ts";
import type { Advice } from "../pools/advise.ts";
import type { WorkOptions } from "../worker/options.ts";
import type { Verdict } from "../worker/verify.ts";
import type { TaskInfo } from "./task-handle.ts";

/** What the methods of a queue's handle (queue.ts) take and return. */

export interface ClaimOptions {
  /** Up to 1,000; default 1. */
  max?: number | undefined;
  /** Default: the queue's lease. */
  lease?: Duration | undefined;
  /** How long to wait for the first task, up to a minute; default: do not wait. */
  wait?: Duration | undefined;
  /** The name of the worker: a failed task is offered first to workers that have not failed it. */
  worker?: string | undefined;
  signal?: AbortSignal | undefined;
}

export interface VerifyOptions extends WorkOptions {
  /** Whether an attempt after a refusal gets the stored steps of the refused one (`"keep"`); otherwise it runs them again. */
  steps?: "clear" | "keep" | undefined;
}

/** The statistics of a queue, with the reason if its limits let no task start, and what they mean. */
export interface QueueStats extends Omit<StoredStats, "heldBack"> {
  heldBack: { by: HeldBack["by"]; until: Date | null } | null;
  /** What limits the queue, how many workers its load needs, and why. */
  advice: Advice;
}

/** A task as a verifier gets it. */
export interface VerifiedTask<Data = unknown> extends Omit<TaskInfo, "data" | "result"> {
  data: Data;
}

export type Verifier<Data = unknown, Out = unknown> = (
  task: VerifiedTask<Data>,
  result: Out,
) => Promise<Verdict> | Verdict;
