import type { ExpiryReason } from "../../../core/queue/expired-to.ts";
import type { Hint } from "../../../engine/hint.ts";
import type { Lane } from "../limits/lanes.ts";
import { InsertOrder } from "./insert-order.ts";
import type { Queue } from "./queue-cache.ts";

/**
 * What the verbs of one batch share besides the transaction: the hint, and what earlier verbs of the batch found out.
 * Tx.begin creates one for each batch.
 */
export class BatchState {
  /** What the commit makes possible. */
  readonly hint: Hint;
  /** The transaction's time. Known once the header is answered. */
  now = 0;
  /** Groups that have no head any more, and no waiting task: see line/free-groups.ts. */
  readonly idleLanes = new Map<string, Lane>();
  /** Live workers by queue, until a session changes: see line/elsewhere.ts. */
  readonly workers = new Map<string, string[]>();
  /** Queues to whose lines a claim of this batch has returned tasks that exceeded the answer size. */
  readonly cutLines = new Set<Queue>();
  /** Runs that have ended while some of their tasks have not: see line/follow-ends.ts. */
  readonly endedRuns: number[] = [];
  /** Tasks of which a child has just ended: see line/follow-ends.ts. */
  readonly relieved: number[] = [];
  /** Children whose parent has ended or has forgotten them: see line/follow-ends.ts. */
  readonly abandoned: number[] = [];
  /** Tasks that have just expired and continue in another queue: see verbs/continue-expired.ts. */
  readonly expired: { seq: number; queue: Queue; why: ExpiryReason }[] = [];
  /** The keys, groups and documents that this transaction has inserted. */
  readonly inserts = new InsertOrder();
  #isSwept = false;
  #hasMoreDue = false;
  #hasNotices = false;
  #leavesInboxEntries = false;

  /** `hint`: of a transaction that has done a part of the batch's work. */
  constructor(hint?: Hint) {
    this.hint = hint ? structuredClone(hint) : {};
  }

  hintReady(queue: Queue, count = 1): void {
    const ready = (this.hint.ready ??= {});
    // A queue may be called "constructor".
    ready[queue.name] = (Object.hasOwn(ready, queue.name) ? ready[queue.name]! : 0) + count;
  }

  /** Nothing is due that this batch has not dealt with: see line/sweep.ts. */
  get isSwept(): boolean {
    return this.#isSwept;
  }

  /** A sweep begins. */
  beginSweep(): void {
    this.#hasMoreDue = false;
  }

  /** A sweep dealt with everything that is due. */
  noteSwept(): void {
    this.#isSwept = true;
  }

  /** The last sweep reached its bound, so more may be due. */
  noteMoreDue(): void {
    this.#hasMoreDue = true;
  }

  get hasMoreDue(): boolean {
    return this.#hasMoreDue;
  }

  /** Something was written that is due at `at`. */
  noteDue(at: number): void {
    if (at <= this.now) this.#isSwept = false;
  }

  /** Notices were written for sessions. */
  noteNotices(): void {
    this.#hasNotices = true;
  }

  get hasNotices(): boolean {
    return this.#hasNotices;
  }

  /** The inbox has entries that only a later batch can process. */
  noteInboxLeft(): void {
    this.#leavesInboxEntries = true;
  }

  get leavesInboxEntries(): boolean {
    return this.#leavesInboxEntries;
  }
}
