/** Measurements that the gatherer and the engines report, for the server's metrics and for benchmarks. */

/** A batch that changed something, when it is on disk. */
export interface Commit {
  /** Operations in this commit. */
  operations: number;
  /** Milliseconds from sending the batch to the engine until it was on disk. */
  ms: number;
}

/**
 * Tasks, by queue, that a commit added without returning their ids to a caller: the next stage of a run, `task.add()`,
 * and schedules.
 */
export interface FollowUpAdds {
  added: Record<string, number>;
}

/** PostgreSQL rolled a batch back because of another transaction. The batch is retried. */
export interface Conflict {
  conflict: "deadlock" | "serialization";
}

export type Measured = Commit | FollowUpAdds | Conflict;
