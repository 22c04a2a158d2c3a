/** Errors that make batch/store.ts start a batch again, or execute it in another way. */

/** Another transaction's commit made what this batch read untrue: the batch starts again. */
export class StaleRead extends Error {
  override get name(): string {
    return "StaleRead";
  }
}

/** Locks that a batch waits for before it holds anything else: see locks.ts. */
export interface Locks {
  /** The ids of queues whose gates it needs. */
  gates: readonly number[];
  /** The ids of runs. */
  runs: readonly number[];
  /** A task whose claim it has to change: the last one that another transaction was found to hold. */
  claim: number | null;
  /** The catalogue, exclusively. */
  exclusive: boolean;
}

/** Another transaction holds a lock that was only tried: the batch starts again, and waits for it first. */
export class LocksNeeded extends StaleRead {
  /** Of each kind that is named, all locks that the batch is known to need. */
  readonly locks: Partial<Locks>;

  constructor(locks: Partial<Locks>) {
    super("Another transaction holds a lock that this one needs.");
    this.locks = locks;
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
