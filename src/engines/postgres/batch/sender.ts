import type { Op } from "../../../engine/engine.ts";
import { CoalescedBatch } from "./coalesced-batch.ts";
import type { ReconnectingStore } from "./reconnecting-store.ts";
import type { BatchResult, RunOptions } from "./batch-result.ts";
import type { PostgresStore } from "./store.ts";

/**
 * Sends batches over one connection, one transaction after the other, in the order of the calls. Batches that arrive
 * while another one waits for its turn are coalesced with it: many callers, one commit. The engine has one for each
 * connection, and the heartbeat thread has its own.
 */
export class Sender {
  readonly #reach: ReconnectingStore;
  readonly #wordFor: RunOptions["messageFor"] | undefined;
  /** Settles when the next batch may be sent. */
  #turn: Promise<unknown> = Promise.resolve();
  /** Settles when every batch so far has its answer. */
  #answered: Promise<unknown> = Promise.resolve();
  /** The last batch, while it waits for its turn. */
  #last: CoalescedBatch | undefined;
  #underWay = 0;

  constructor(reach: ReconnectingStore, messageFor?: (ran: BatchResult) => string | undefined) {
    this.#reach = reach;
    this.#wordFor = messageFor;
  }

  /** Some batch has no answer yet. */
  get isBusy(): boolean {
    return this.#underWay > 0;
  }

  get answered(): Promise<unknown> {
    return this.#answered;
  }

  /** `after`: it is not sent before that has settled. `askedAt`: where its caller asked earlier than now. */
  run(
    ops: readonly Op[],
    { after, askedAt = performance.now() }: { after?: Promise<unknown>; askedAt?: number } = {},
  ): Promise<BatchResult> {
    const before = this.#answered;
    const sent = Promise.withResolvers<void>();
    const turn = after ? Promise.all([this.#turn, after]) : this.#turn;
    const messageFor = this.#wordFor && { messageFor: this.#wordFor };
    this.#last = undefined;
    const ran = turn.then(() => {
      if (this.#last?.ops === ops) this.#last = undefined;
      return this.#reach.run(ops, { onSent: sent.resolve, before, askedAt, ...messageFor });
    });
    this.#underWay++;
    const end = (): void => void this.#underWay--;
    const answered = ran.then(end, end);
    this.#turn = Promise.race([sent.promise, answered]);
    this.#answered = Promise.all([before, answered]);
    return ran;
  }

  /**
   * The same for what may share a commit with others. While the server is away nothing is gained by that, and each caller's
   * patience counts from its own call.
   */
  runTogether(ops: readonly Op[]): Promise<BatchResult> {
    const joined = this.#reach.isLost ? undefined : this.#last?.join(ops);
    if (joined) return joined;
    const party = new CoalescedBatch(ops);
    const ran = party.lead(this.run(party.ops));
    this.#last = party;
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

  #next<T>(work: (reach: ReconnectingStore) => Promise<T>): Promise<T> {
    // It may be a transaction by itself: nothing else is under way meanwhile, nor tried again.
    const asked = Promise.all([this.#turn, this.#answered]).then(() => work(this.#reach));
    const over = asked.catch(() => {});
    this.#last = undefined;
    this.#turn = over;
    this.#answered = Promise.all([this.#answered, over]);
    return asked;
  }

  close(): Promise<void> {
    return this.#reach.close();
  }
}
