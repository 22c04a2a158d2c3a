/** Another transaction's commit made what was read untrue: the whole batch is carried out once more. */
export class StaleRead extends Error {
  override get name(): string {
    return "StaleRead";
  }
}

/** Locks that a batch waits for before it holds anything: see locks.ts. */
export interface Locks {
  /** The ids of queues whose gates it needs. */
  gates: readonly number[];
  /** The ids of runs. */
  runs: readonly number[];
  /** A task whose claim it has to change: the last that another transaction was found to hold. */
  claim: number | null;
  /** The catalogue, without others. */
  alone: boolean;
}

/** A lock that is only tried once the batch has begun is another transaction's: the batch starts again and waits for it first. */
export class LocksNeeded extends StaleRead {
  /** All of the named kinds that it needs, as far as is known. */
  readonly locks: Partial<Locks>;

  constructor(locks: Partial<Locks>) {
    super("Another transaction holds a lock that this one needs.");
    this.locks = locks;
  }

  override get name(): string {
    return "LocksNeeded";
  }
}

/** It has others' notes in its hands, which nobody else sees meanwhile, and would have to wait for somebody's lock. */
export class BlockedByLock extends Error {
  override get name(): string {
    return "BlockedByLock";
  }
}

/** It has to be alone, and somebody's transaction has been open for long: it gives way, and asks again later. */
export class ExclusiveTimeout extends Error {
  override get name(): string {
    return "ExclusiveTimeout";
  }
}
