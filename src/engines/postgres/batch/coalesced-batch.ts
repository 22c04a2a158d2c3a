import { BOUNDS } from "../../../engine/bounds.ts";
import type { Op, VerbName } from "../../../engine/engine.ts";
import type { BatchResult } from "./batch-result.ts";

/**
 * Batches of several calls that share one transaction. Sender (sender.ts) creates one for each turn. With 500 adds in
 * progress 72 (69 to 74) thousand tasks a second were added, and 36 (29 to 61) without this; drains at concurrency 100 ran
 * at 41 (39 to 41) and 33 (33 to 35). Medians and ranges of three interleaved rounds.
 */

const COALESCED: Partial<Record<VerbName, true>> = { add: true, publish: true, claim: true, settle: true };

/** Only the frequent verbs. Others may be exclusive, or take long, and would delay the calls that share their batch. */
export function mayBeCoalesced(ops: readonly Op[]): boolean {
  return ops.every(({ verb }) => verb in COALESCED);
}

/** A claim of so many tasks takes long: calls that shared its transaction would wait for it. */
const LARGE_CLAIM = 64;

/** So many tasks take long too. The client can encode the next ones meanwhile. */
const LARGE_ADD = 1_000;

/**
 * The first batch returns everything that follows from the commit (hint, notices), the others only their outcomes, so
 * that it is reported once.
 */
export class CoalescedBatch {
  readonly ops: Op[];
  readonly #size: number;
  #ran!: Promise<BatchResult>;

  constructor(ops: readonly Op[]) {
    this.ops = [...ops];
    this.#size = ops.length;
  }

  /** Before any other batch joins. */
  lead(ran: Promise<BatchResult>): Promise<BatchResult> {
    this.#ran = ran;
    return ran.then((all) => ({ ...all, outcomes: all.outcomes.slice(0, this.#size) }));
  }

  /** Undefined: the batch needs a transaction of its own. */
  join(ops: readonly Op[]): Promise<BatchResult> | undefined {
    if (this.ops.length + ops.length > BOUNDS.commit || this.ops.some(isLargeClaim)) return undefined;
    if (tasksIn(this.ops) + tasksIn(ops) > LARGE_ADD) return undefined;
    const from = this.ops.length;
    this.ops.push(...ops);
    return this.#ran.then((all) => ({
      ...all,
      outcomes: all.outcomes.slice(from, from + ops.length),
      hint: {},
      hasNotices: false,
      loweredFloors: [],
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
