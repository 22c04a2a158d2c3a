import type { ExpiryReason } from "../../../core/queue/expired-to.ts";
import type { Hint } from "../../../engine/hint.ts";
import type { RunRow } from "../flows/runs.ts";
import type { Queue } from "./queue-cache.ts";

/** A live worker, by its session. */
export interface LiveWorker {
  id: number;
  worker: string;
}

/**
 * What the verbs of one batch share besides the transaction: the hint, and what earlier verbs of the batch found out.
 * Tx.begin creates one for each batch.
 */
export class BatchState {
  /** What the commit makes possible. */
  readonly hint: Hint = {};
  readonly now: number;
  /** Live workers by queue, until a session changes: see line/elsewhere.ts. */
  readonly workers = new Map<string, LiveWorker[]>();
  /** Runs that have just lost a task: see flows/runs.ts. */
  readonly lostRuns: RunRow[] = [];
  /** Runs that have ended while some of their tasks have not: see line/follow-ends.ts. */
  readonly endedRuns: number[] = [];
  /** Tasks of which a child has just ended: see line/follow-ends.ts. */
  readonly relieved: number[] = [];
  /** Children whose parent has ended or has forgotten them: see line/follow-ends.ts. */
  readonly abandoned: number[] = [];
  /** Tasks that have just expired and continue in another queue: see verbs/continue-expired.ts. */
  readonly expired: { seq: number; queue: Queue; why: ExpiryReason }[] = [];
  #isSwept = false;

  constructor(now: number) {
    this.now = now;
  }

  hintReady(queue: Queue, count = 1): void {
    const ready = (this.hint.ready ??= {});
    // A queue may be called "constructor".
    ready[queue.name] = (Object.hasOwn(ready, queue.name) ? ready[queue.name]! : 0) + count;
  }

  /** Something becomes due at `at`, which may be sooner than what was due before. */
  hintDue(at: number): void {
    this.hint.due = Math.min(this.hint.due ?? Number.POSITIVE_INFINITY, at - this.now);
  }

  /** Nothing is due that this batch has not dealt with: see line/sweep.ts. */
  get isSwept(): boolean {
    return this.#isSwept;
  }

  /** A sweep found nothing that is due. */
  noteSwept(): void {
    this.#isSwept = true;
  }

  /** Something was written that is due at `at`. */
  noteDue(at: number): void {
    if (at <= this.now) this.#isSwept = false;
  }
}
