/**
 * How far work has come that takes several batches: pruning idle lanes (verbs/housekeeping.ts) and dropping queues
 * (verbs/queues.ts). Each connection counts for itself. To start over costs time, and is never wrong.
 */
export class Progress {
  /** The last lane that pruning has read. */
  prunedTo = { queue: 0, key: "" };
  /** The number of the last task that was read, by the id of a queue that is being dropped. */
  readonly dropping = new Map<number, number>();
  #droppingBefore = new Map<number, number>();

  begin(): void {
    this.#droppingBefore = new Map(this.dropping);
  }

  /** After a rollback: the tasks that this transaction removed are there again. */
  undo(): void {
    this.dropping.clear();
    for (const [queue, seq] of this.#droppingBefore) this.dropping.set(queue, seq);
  }
}
