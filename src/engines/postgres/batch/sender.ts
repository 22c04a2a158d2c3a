import type { Op } from "../../../engine/engine.ts";
import type { BatchResult, RunOptions } from "./batch-result.ts";
import { CoalescedBatch } from "./coalesced-batch.ts";
import type { ReconnectingStore } from "./reconnecting-store.ts";
import type { PostgresStore } from "./store.ts";

/**
 * Sends batches over one connection, one transaction after the other, in the order of the calls. Batches that arrive
 * while another one waits for its turn are coalesced with it: many callers, one commit. The engine has one for each
 * connection, and the heartbeat thread has its own.
 */
export class Sender {
  readonly #store: ReconnectingStore;
  readonly #messageFor: RunOptions["messageFor"] | undefined;
  /** Settles when the next batch may be sent. */
  #turn: Promise<unknown> = Promise.resolve();
  /**
   * Settles when every batch so far has its answer. Without a value: each of these promises follows from the one before
   * it, so their values would keep the answers of all batches in memory.
   */
  #answered: Promise<void> = Promise.resolve();
  /** The last batch, while it waits for its turn. */
  #last: CoalescedBatch | undefined;

  constructor(store: ReconnectingStore, messageFor?: RunOptions["messageFor"]) {
    this.#store = store;
    this.#messageFor = messageFor;
  }

  get answered(): Promise<void> {
    return this.#answered;
  }

  /** `after`: it is not sent before that has settled. `calledAt`: if the caller's call was earlier than this one. */
  run(
    ops: readonly Op[],
    { after, calledAt = performance.now() }: { after?: Promise<unknown>; calledAt?: number } = {},
  ): Promise<BatchResult> {
    const before = this.#answered;
    const sent = Promise.withResolvers<void>();
    const turn = after ? Promise.all([this.#turn, after]) : this.#turn;
    const messageFor = this.#messageFor && { messageFor: this.#messageFor };
    this.#last = undefined;
    const ran = turn.then(() => {
      if (this.#last?.ops === ops) this.#last = undefined;
      return this.#store.run(ops, { onSent: sent.resolve, before, calledAt, ...messageFor });
    });
    const answered = ran.catch(() => {});
    this.#turn = Promise.race([sent.promise, answered]);
    this.#answered = Promise.all([before, answered]).then(nothing);
    return ran;
  }

  /**
   * As `run`, for batches that may share a transaction. Not while the server is unreachable: then nothing is gained, and
   * each caller's patience counts from its own call.
   */
  runCoalesced(ops: readonly Op[]): Promise<BatchResult> {
    const joined = this.#store.isLost ? undefined : this.#last?.join(ops);
    if (joined) return joined;
    const batch = new CoalescedBatch(ops);
    const ran = batch.lead(this.run(batch.ops));
    this.#last = batch;
    return ran;
  }

  /** A query in its turn among the batches. It is retried while the server is unreachable. */
  query<T>(work: (store: PostgresStore) => Promise<T>): Promise<T> {
    return this.#next(() => this.#store.query(work));
  }

  /** As `query`, without retries. */
  queryOnce<T>(work: (store: PostgresStore) => Promise<T>): Promise<T> {
    return this.#next(() => this.#store.queryOnce(work));
  }

  /** It may be a transaction, so it starts when every batch before it is answered, and none starts before its end. */
  #next<T>(work: () => Promise<T>): Promise<T> {
    const done = Promise.all([this.#turn, this.#answered]).then(work);
    const over = done.catch(() => {});
    this.#last = undefined;
    this.#turn = over;
    this.#answered = Promise.all([this.#answered, over]).then(nothing);
    return done;
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}

function nothing(): void {}
