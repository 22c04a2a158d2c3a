import type { WorkerRecord } from "../core/task/task.ts";
import type { Decision, Observed } from "./decide.ts";
import type { ProcessMark } from "./process-facts.ts";

/** What makes a pool larger or smaller: local processes, a command, or a webhook. */
export interface Actuator {
  /** Called before each decision. Afterwards `launcher` is the one that the next workers get. */
  prepare(): void;
  /** The workers of this pool among those of its queues. */
  observe(workers: readonly WorkerRecord[]): Observed["workers"];
  /** Returns what happened that people should know, such as crashes. */
  resize(decision: Decision): Promise<string[]>;
  /** Processes that run on this machine, those that are being ended included. */
  readonly processes: number;
  /** For the pool's report: the process that may still have workers when this one is gone. */
  readonly launcher: ProcessMark | null;
  /** Ends all workers; those in the middle of a task finish it, within the stop timeout. */
  stop(): Promise<void>;
}
