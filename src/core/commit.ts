/** A batch that changed something, as it reached the store: for those who measure. */
export interface Commit {
  /** Operations that shared it. */
  operations: number;
  /** From when it was sent to the engine until it was on disk, in milliseconds. */
  ms: number;
}

/** Tasks that were added beside those that a caller is told of, by queue: what follows a success, and what schedules add. */
export interface FollowUpAdds {
  added: Record<string, number>;
}

/** A batch that PostgreSQL rolled back because of others' transactions, and that is tried again. */
export interface Conflict {
  conflict: "deadlock" | "serialization";
}

export type Measured = Commit | FollowUpAdds | Conflict;
