import type { QueuePolicy } from "../../../core/queue/policy.ts";
import { isVerificationQueue } from "../../../core/handler/verification.ts";
import type { ClaimOutcome } from "../../../engine/claim-request.ts";
import type { Op } from "../../../engine/engine.ts";
import type { BatchResult } from "./batch-result.ts";
import type { Sender } from "./sender.ts";

/**
 * Sends acks in bulk on a separate connection, for the engine. One server process would settle first and claim
 * afterwards; two do both at the same time. Acks of plain tasks share no row with adds and claims, so their order among
 * these does not matter. A batch of anything else waits for the acks that were sent before it. Until it is answered,
 * later acks go to the writing connection, behind it.
 *
 * Drains at concurrency 100, 10 and 1 ran at 47 (41 to 48), 46 (36 to 48) and 41 (41 to 42) thousand tasks a second
 * with this, and at 43 (25 to 44), 41 (41 to 42) and 37 (34 to 38) without it; one producer with two consumers had 20
 * and 20. Medians and ranges of three interleaved rounds.
 */

/**
 * Fewer acks than this go to the writing connection, where they share a commit with the next claim, unless acks are in
 * progress here already.
 */
const MANY = 64;

export class SettleConnection {
  readonly #sender: Sender;
  #acks = 0;
  #others = 0;
  /** The highest fence of a claim whose end may make another task ready: acks up to it are not sent here. */
  #lastWithNext = 0;

  constructor(sender: Sender) {
    this.#sender = sender;
  }

  /** Resolves when every batch of acks so far has its answer. */
  get answered(): Promise<unknown> {
    return this.#sender.answered;
  }

  /** Sends the batch; undefined if it has to go to the writing connection. */
  send(ops: readonly Op[]): Promise<BatchResult> | undefined {
    if (!this.#suits(ops)) return undefined;
    this.#acks++;
    return this.#sender.runCoalesced(ops).finally(() => this.#acks--);
  }

  #suits(ops: readonly Op[]): boolean {
    if (this.#others > 0 || (ops.length < MANY && this.#acks === 0)) return false;
    return ops.every((op) => isPlainAck(op) && op.fence > this.#lastWithNext);
  }

  /**
   * The end of a claimed task makes another task ready if it frees its group or a place within `maxConcurrency`, asks
   * for or gives a verdict, or continues its run. A claim that is called after the ack must find that task.
   */
  noteClaimed({ tasks, policies }: Pick<ClaimOutcome, "tasks" | "policies">): void {
    const queues = new Set(Object.keys(policies).filter((name) => endsLeadOn(name, policies[name]!)));
    for (const { queue, groupKey, fence, run } of tasks) {
      const hasNext = groupKey !== null || queues.has(queue) || run !== undefined;
      if (hasNext && fence > this.#lastWithNext) this.#lastWithNext = fence;
    }
  }

  /** For a batch of other verbs: until it is answered, acks go to the writing connection, behind it. */
  async exclude<T>(batch: Promise<T>): Promise<T> {
    this.#others++;
    try {
      return await batch;
    } finally {
      this.#others--;
    }
  }
}

function isPlainAck(op: Op): op is Op<"settle"> {
  return (
    op.verb === "settle" &&
    op.settlement.kind === "done" &&
    op.spent === undefined &&
    !op.settlement.adds?.length &&
    !op.settlement.each &&
    !op.settlement.next
  );
}

function endsLeadOn(queue: string, { verified, maxConcurrency }: QueuePolicy): boolean {
  return verified || maxConcurrency !== null || isVerificationQueue(queue);
}
