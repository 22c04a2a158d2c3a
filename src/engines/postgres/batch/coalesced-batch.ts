import { BOUNDS, type Op } from "../../../engine/engine.ts";
import type { BatchResult } from "./batch-result.ts";

/** Batches of several calls that share one transaction. Sender (sender.ts) creates one for each turn. */

/** A claim for so many is long under way: whoever shared its transaction would wait for it. */
const LARGE_CLAIM = 64;

/** So many tasks are long under way, too: who adds more can write the next ones down meanwhile. */
const LARGE_ADD = 1_000;

/**
 * Batches that wait for their turn together and share a transaction. The first is answered with all that follows from the
 * commit (hints, notices), the others with their own outcomes.
 */
export class CoalescedBatch {
  readonly ops: Op[];
  readonly #size: number;
  #ran!: Promise<BatchResult>;

  constructor(ops: readonly Op[]) {
    this.ops = [...ops];
    this.#size = ops.length;
  }

  /** Before anybody joins. */
  lead(ran: Promise<BatchResult>): Promise<BatchResult> {
    this.#ran = ran;
    return ran.then((all) => ({ ...all, outcomes: all.outcomes.slice(0, this.#size) }));
  }

  /** Undefined where they have to go by themselves. */
  join(ops: readonly Op[]): Promise<BatchResult> | undefined {
    if (this.ops.length + ops.length > BOUNDS.commit || this.ops.some(isLargeClaim)) return undefined;
    if (tasksIn(this.ops) + tasksIn(ops) > LARGE_ADD) return undefined;
    const from = this.ops.length;
    this.ops.push(...ops);
    return this.#ran.then((all) => ({
      ...all,
      outcomes: all.outcomes.slice(from, from + ops.length),
      hint: {},
      noticed: false,
      stirred: [],
      leftInboxEntries: false,
    }));
  }
}

function tasksIn(ops: readonly Op[]): number {
  return ops.reduce((sum, op) => sum + (op.verb === "add" ? op.tasks.length : 0), 0);
}

function isLargeClaim(op: Op): boolean {
  return op.verb === "claim" && op.max >= LARGE_CLAIM;
}
