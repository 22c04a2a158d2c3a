/** While an asynchronous validator is at work, what is called later must take effect later. */
export class Turns {
  #last: Promise<unknown> | undefined;

  /** Somebody's turn is not over yet. */
  get isBusy(): boolean {
    return this.#last !== undefined;
  }

  take<T>(work: () => Promise<T>): Promise<T> {
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
