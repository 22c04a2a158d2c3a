import type { Reading } from "../../core/clock.ts";
import type { Op } from "../../engine/engine.ts";
import type { Reach } from "./reach.ts";
import type { PostgresStore, Ran, RunOptions } from "./store.ts";

/** Sends batches over one connection, one transaction after the other: they take effect in the order of the calls. */
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

  /** `after`: it is not sent before that has settled. `askedAt`: where its caller asked earlier than now. */
  run(
    ops: readonly Op[],
    reading: Reading | null,
    { after, askedAt = performance.now() }: { after?: Promise<unknown>; askedAt?: number } = {},
  ): Promise<Ran> {
    const before = this.#answered;
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

  /** A question that may be asked any number of times, in its turn among them. */
  async ask<T>(question: (store: PostgresStore) => Promise<T>): Promise<T> {
    return this.#next((reach) => reach.ask(question));
  }

  /** The same, once: for what is not worth waiting for a server that is away. */
  async askOnce<T>(question: (store: PostgresStore) => Promise<T>): Promise<T> {
    return this.#next((reach) => reach.askOnce(question));
  }

  #next<T>(work: (reach: Reach) => Promise<T>): Promise<T> {
    const asked = this.#turn.then(() => work(this.#reach));
    this.#turn = asked.catch(() => {});
    return asked;
  }

  close(): Promise<void> {
    return this.#reach.close();
  }
}
