import type { Value } from "./connection.ts";

/** Errors that make batch/store.ts start a batch again, or execute it in another way. */

/** Another transaction's commit made what this batch read untrue: the batch starts again. */
export class StaleRead extends Error {
  override get name(): string {
    return "StaleRead";
  }
}

/** A statement that waits for locks of other transactions, with its values. */
export interface Wait {
  sql: string;
  values: readonly Value[];
}

/** Locks that a batch waits for before it holds anything else: see locks.ts. */
export interface Locks {
  /** The ids of queues whose gates it needs. */
  gates: readonly number[];
  /** The catalogue, exclusively. */
  exclusive: boolean;
  /** The ids of runs. */
  runs: readonly number[];
  /** A statement that locks the rows of which another transaction was last found to hold one. */
  rows: Wait | null;
  /** A statement that waits for locks which the batch does not keep. It is executed and undone before the batch begins. */
  before: Wait | null;
}

/** Another transaction holds a lock that was only tried: the batch starts again, and waits for it first. */
export class LocksNeeded extends StaleRead {
  readonly locks: Partial<Locks>;

  constructor(locks: Partial<Locks>) {
    super("Another transaction holds a lock that this one needs.");
    this.locks = locks;
  }

  /**
   * With the locks that earlier tries of the batch were found to need. Of rows only the last ones: two batches that wait
   * for the rows of several statements could wait for each other.
   */
  and(known: Locks): Locks {
    const { gates = [], exclusive = false, runs = [], rows = null, before = null } = this.locks;
    return {
      gates: [...new Set([...known.gates, ...gates])],
      exclusive: known.exclusive || exclusive,
      runs: [...new Set([...known.runs, ...runs])],
      rows,
      before,
    };
  }

  override get name(): string {
    return "LocksNeeded";
  }
}

/** A batch that has processed inbox entries would have to wait for a lock. No other batch sees the entries meanwhile. */
export class BlockedByLock extends Error {
  override get name(): string {
    return "BlockedByLock";
  }
}

/** An exclusive batch could not begin, because another transaction stays open. It is retried later. */
export class ExclusiveTimeout extends Error {
  override get name(): string {
    return "ExclusiveTimeout";
  }
}
