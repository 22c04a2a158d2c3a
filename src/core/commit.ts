/** A batch that changed something, as it reached the store: for those who measure. */
export interface Commit {
  /** Operations that shared it. */
  operations: number;
  /** From when it was sent to the engine until it was on disk, in milliseconds. */
  ms: number;
}
