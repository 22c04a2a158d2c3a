import type { ClaimedTask } from "../../core/task.ts";
import type { Op, VerbName } from "../../engine/engine.ts";

/**
 * Successes by the hundred are settled on a connection of their own, beside the one that claims and adds: one server
 * process would have to do first the one and then the other. They share no row with what is claimed or added, so that
 * their order makes no difference; with what other verbs do it does, and those wait for each other.
 */
const FREE: Partial<Record<VerbName, true>> = { add: true, publish: true, claim: true, settle: true };

/** Fewer are better off in one commit with the claim that follows them. */
const ENOUGH = 64;

/** Whether a batch has nothing in it that what is settled beside could come before or after. */
export function isFree(ops: readonly Op[]): boolean {
  return ops.every(({ verb }) => verb in FREE);
}

function isPlainSuccess(op: Op): op is Op<"settle"> {
  return op.verb === "settle" && op.settlement.kind === "done" && !op.settlement.adds?.length;
}

/**
 * A task with a key needs more than its own row, and that may meet the locks of the writer. Whoever has one has many:
 * for so long all goes through the writer.
 */
const REST_MS = 1_000;

/** When to settle beside. */
export class Beside {
  #others = 0;
  /** Fences only grow: the last one under which a task of a group was claimed here. */
  #lastOfGroup = 0;
  #restsUntil = Number.NEGATIVE_INFINITY;

  suits(ops: readonly Op[]): boolean {
    if (ops.length < ENOUGH || this.#others > 0 || performance.now() < this.#restsUntil) return false;
    return ops.every((op) => isPlainSuccess(op) && op.fence > this.#lastOfGroup);
  }

  /** The end of a task makes the next one of its group ready, which a claim that is called after it has to find. */
  note(tasks: readonly ClaimedTask[]): void {
    for (const { groupKey, fence } of tasks) {
      if (groupKey !== null && fence > this.#lastOfGroup) this.#lastOfGroup = fence;
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
