import type { Reading } from "../../src/core/time/clock.ts";
import type { NewTask } from "../../src/core/task/task.ts";
import type { Hint } from "../../src/engine/hint.ts";
import type { Op, Outcome } from "../../src/engine/engine.ts";

export const ENGINES = ["sqlite", "postgres"] as const;
export type EngineName = (typeof ENGINES)[number];

/** A store under simulation, and its failures. */
export interface Subject {
  run(ops: Op[], reading: Reading): MaybePromise<{ outcomes: Outcome[]; hint: Hint }>;
  readonly canCrash: boolean;
  /** Between two batches. */
  crash(reading: Reading): MaybePromise<void>;
  /** A batch that fails during its last operation, and then has not happened. The store continues. */
  fail(ops: Op[], reading: Reading, reads: number): MaybePromise<void>;
  /** The same, but the process dies during it. */
  crashWithin(ops: Op[], reading: Reading, reads: number): MaybePromise<void>;
  end(): MaybePromise<void>;
}

type MaybePromise<T> = T | Promise<T>;

/** A queue that never comes into existence. */
export const NOT_THERE = "rolled-back";
export const FAILURE = "the disk is on fire";

/** A task that throws when its queue is read for the n-th time: while it is checked, or while it is written. */
export function trap(reads: number, blowUp: () => never): NewTask {
  let left = reads;
  return {
    get queue(): string {
      if (--left <= 0) blowUp();
      return NOT_THERE;
    },
    data: "2",
  };
}
