/**
 * Makes asynchronous calls of one handle take effect in the order in which they are made. Needed while an asynchronous
 * validator runs.
 */
export class CallOrder {
  #last: Promise<unknown> | undefined;

  /** Whether an earlier call is still in progress. */
  get isBusy(): boolean {
    return this.#last !== undefined;
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const turn = (async () => {
      await before?.catch(() => {});
      return work();
    })();
    this.#last = turn;
    const over = turn.finally(() => {
      if (this.#last === turn) this.#last = undefined;
    });
    over.catch(() => {});
    return turn;
  }
}
