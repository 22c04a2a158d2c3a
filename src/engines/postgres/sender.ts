import type { Reading } from "../../core/clock.ts";
import type { Op } from "../../engine/engine.ts";
import type { Reach } from "./reach.ts";
import type { PostgresStore, Ran, RunOptions } from "./store.ts";

/** Sends batches over one connection: they take effect in the order of the calls. */
export class Sender {
  readonly #reach: Reach;
  readonly #wordFor: RunOptions["wordFor"] | undefined;
  /** Settles when the next batch may be sent. */
  #turn: Promise<unknown> = Promise.resolve();
  /** Settles when every batch so far has its answer. */
  #answered: Promise<unknown> = Promise.resolve();

  constructor(reach: Reach, wordFor?: (ran: Ran) => string | undefined) {
    this.#reach = reach;
    this.#wordFor = wordFor;
  }

  /** What was sent last did not get through, or not yet. */
  get isLost(): boolean {
    return this.#reach.isLost;
  }

  get answered(): Promise<unknown> {
    return this.#answered;
  }

  /** `after`: it is not sent before that has settled. */
  run(ops: readonly Op[], reading: Reading | null, after?: Promise<unknown>): Promise<Ran> {
    const before = this.#answered;
    const askedAt = performance.now();
    const sent = Promise.withResolvers<void>();
    const turn = after ? Promise.all([this.#turn, after]) : this.#turn;
    const wordFor = this.#wordFor && { wordFor: this.#wordFor };
    const ran = turn.then(() =>
      this.#reach.run(ops, reading, { onSent: sent.resolve, before, askedAt, ...wordFor }),
    );
    const answered = ran.catch(() => {});
    this.#turn = Promise.race([sent.promise, answered]);
    this.#answered = Promise.all([before, answered]);
    return ran;
  }

  /** Something else, in its turn among them. It is tried once. */
  async askOnce<T>(question: (store: PostgresStore) => Promise<T>): Promise<T> {
    const asked = this.#turn.then(() => this.#reach.askOnce(question));
    this.#turn = asked.catch(() => {});
    return asked;
  }

  close(): Promise<void> {
    return this.#reach.close();
  }
}
