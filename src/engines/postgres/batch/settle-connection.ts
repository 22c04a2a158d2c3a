import type { QueuePolicy } from "../../../core/policy.ts";
import { isVerificationQueue } from "../../../core/verification.ts";
import type { ClaimOutcome, Op, VerbName } from "../../../engine/engine.ts";

/**
 * Decides, for the engine, which batches of acks use a separate connection. One server process would settle first and
 * claim afterwards; two do both at the same time. Plain acks share no row with adds and claims, so their order does
 * not matter. Batches with other verbs wait for the acks, and acks for them.
 */
const FREE: Partial<Record<VerbName, true>> = { add: true, publish: true, claim: true, settle: true };

/** Fewer are better off in one commit with the claim that follows them, unless others are being settled beside. */
const ENOUGH = 64;

/** Whether a batch has nothing in it that what is settled beside could come before or after. */
export function isFree(ops: readonly Op[]): boolean {
  return ops.every(({ verb }) => verb in FREE);
}

function isPlainSuccess(op: Op): op is Op<"settle"> {
  return (
    op.verb === "settle" &&
    op.settlement.kind === "done" &&
    op.spent === undefined &&
    !op.settlement.adds?.length &&
    !op.settlement.each &&
    !op.settlement.next
  );
}

/**
 * A task with a key needs more than its own row, and that may meet the locks of the writer. Whoever has one has many:
 * for so long all goes through the writer.
 */
const REST_MS = 1_000;

/** When to settle beside. */
export class SettleConnection {
  #others = 0;
  /** Fences only grow: the last one under which a task was claimed here whose end makes another one ready. */
  #lastWithNext = 0;
  #restsUntil = Number.NEGATIVE_INFINITY;

  suits(ops: readonly Op[], isBusy: boolean): boolean {
    if ((ops.length < ENOUGH && !isBusy) || this.#others > 0 || performance.now() < this.#restsUntil)
      return false;
    return ops.every((op) => isPlainSuccess(op) && op.fence > this.#lastWithNext);
  }

  /**
   * The end of a task makes the next one of its group ready, or one that asks for a verdict, or one that got it, or the next
   * stage of its run, or it leaves room in a queue that runs so many at once: a claim that is called after it has to find that.
   */
  note({ tasks, policies }: Pick<ClaimOutcome, "tasks" | "policies">): void {
    const queues = new Set(Object.keys(policies).filter((name) => isJudgedOrCapped(name, policies[name]!)));
    for (const { queue, groupKey, fence, run } of tasks) {
      const hasNext = groupKey !== null || queues.has(queue) || run !== undefined;
      if (hasNext && fence > this.#lastWithNext) this.#lastWithNext = fence;
    }
  }

  rest(): void {
    this.#restsUntil = performance.now() + REST_MS;
  }

  /** Until it is answered nothing is settled beside. */
  async without<T>(work: Promise<T>): Promise<T> {
    this.#others++;
    try {
      return await work;
    } finally {
      this.#others--;
    }
  }
}

function isJudgedOrCapped(queue: string, { verified, maxConcurrency }: QueuePolicy): boolean {
  return verified || maxConcurrency !== null || isVerificationQueue(queue);
}
