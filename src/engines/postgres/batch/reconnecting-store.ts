import { setTimeout as sleep } from "node:timers/promises";
import { DibsError } from "../../../core/errors/errors.ts";
import type { Op } from "../../../engine/engine.ts";
import type { Connection } from "../connection/connection.ts";
import { classifyFailure, type FailureClass, failureFrom, outcomeUnknown } from "../connection/failure.ts";
import { commitOutcome } from "../connection/incarnation.ts";
import { watchForStall } from "../connection/stall-check.ts";
import type { TxOptions } from "../transaction/tx.ts";
import { type BatchResult, CommitLost, type RunOptions } from "./batch-result.ts";
import { type OnConflict, PostgresStore } from "./store.ts";

/** What a connection's batches go through between `Sender` and `PostgresStore`: reconnecting and repeating. */

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1_000;
/** A program that was asked to end is killed if it takes long. */
const HURRY_MS = 2_000;

const RETRIED: ReadonlySet<FailureClass> = new Set(["reconnect", "later"]);

export interface StoreOptions {
  connect: () => Promise<Connection>;
  tx: TxOptions;
  /** The server's name in error messages, without secrets. */
  where: string;
  /** For how many milliseconds something that certainly did not happen is retried, before the caller gets the error. */
  patience: number;
  onConflict?: OnConflict | undefined;
}

/**
 * A store behind a connection that may be lost; Sender (sender.ts) has one. It connects again when it is needed. A batch
 * that did not reach its commit is executed again. For one that did, it asks the server for the outcome.
 */
export class ReconnectingStore {
  readonly #options: StoreOptions;
  readonly #closing = new AbortController();
  #store: PostgresStore | undefined;
  #connecting: Promise<PostgresStore> | undefined;
  #isLost = false;
  /** Batches that failed and are being retried, or whose outcome is being asked for. */
  #inTrouble = 0;
  /** The store to which the last batch was sent. */
  #used: PostgresStore | undefined;
  #hurriedUntil = Number.POSITIVE_INFINITY;

  constructor(options: StoreOptions, link?: Connection) {
    this.#options = options;
    if (link) this.#store = this.#storeOn(link);
  }

  /** The last try did not reach the server. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /**
   * `before` settles when the batch before this one has its answer: if both were lost, that one is retried first.
   * `calledAt`: the caller's patience counts from here.
   */
  async run(
    ops: readonly Op[],
    { before, calledAt, ...options }: RunOptions & { before?: Promise<unknown>; calledAt?: number } = {},
  ): Promise<BatchResult> {
    return this.#persist(async (store) => store.run(ops, options), before, calledAt);
  }

  /** Retried while the server is unreachable, so `work` must be safe to repeat. */
  async query<T>(work: (store: PostgresStore) => Promise<T>): Promise<T> {
    return this.#persist(work);
  }

  async queryOnce<T>(work: (store: PostgresStore) => Promise<T>): Promise<T> {
    return work(await this.connected());
  }

  async #persist<T>(
    work: (store: PostgresStore) => Promise<T>,
    before?: Promise<unknown>,
    calledAt = performance.now(),
  ): Promise<T> {
    const { where, patience } = this.#options;
    const until = calledAt + patience;
    let isInTrouble = false;
    try {
      for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
        let store: PostgresStore | undefined;
        try {
          store = isInTrouble || !before ? await this.connected() : await this.#inTurn(before);
          const done = await work(store);
          this.#isLost = false;
          return done;
        } catch (error) {
          this.#isLost = error instanceof CommitLost || classifyFailure(error) === "reconnect";
          if (!isInTrouble) this.#inTrouble++;
          isInTrouble = true;
          if (error instanceof CommitLost) {
            this.#drop(store);
            await before;
            const result = await this.#resolve(error, until);
            if (result) return result as T;
          } else if (!RETRIED.has(classifyFailure(error)) || this.#isTooLate(until, pause)) {
            throw failureFrom(error, where);
          }
          if (classifyFailure(error) !== "later") this.#drop(store);
        }
        await before;
        await this.#rest(pause);
      }
    } finally {
      if (isInTrouble) this.#inTrouble--;
    }
  }

  /**
   * On the connection of the batches before it, a batch may be sent while these have no answer yet. On another connection
   * it waits for them, because they are retried there: of two transactions at once on one connection, the first commit
   * would end both.
   */
  async #inTurn(before: Promise<unknown>): Promise<PostgresStore> {
    let store = await this.connected();
    if (this.#inTrouble > 0 || store !== this.#used) {
      await before;
      store = await this.connected();
    }
    this.#used = store;
    return store;
  }

  #isTooLate(until: number, pause: number): boolean {
    return this.#closing.signal.aborted || performance.now() + pause > Math.min(until, this.#hurriedUntil);
  }

  /** The result of a batch that did commit; undefined if it certainly did not. */
  async #resolve(lost: CommitLost, until: number): Promise<BatchResult | undefined> {
    for (
      let pause = FIRST_PAUSE_MS;
      !this.#isTooLate(until, pause);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS)
    ) {
      await this.#rest(pause);
      try {
        const outcome = await commitOutcome((await this.connected()).link, lost.mark);
        if (outcome === "aborted") return undefined;
        if (outcome === "committed") return lost.result;
        if (outcome !== "in progress") break;
      } catch (error) {
        if (classifyFailure(error) !== "reconnect") break;
        this.#drop(this.#store);
      }
    }
    throw outcomeUnknown(this.#options.where, lost.cause);
  }

  async #rest(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#closing.signal }).catch(() => {});
  }

  /** Connects if there is no connection. */
  async connected(): Promise<PostgresStore> {
    if (this.#store && !this.#store.link.ended) return this.#store;
    if (this.#closing.signal.aborted) throw closed();
    this.#connecting ??= this.#connect().finally(() => (this.#connecting = undefined));
    return this.#connecting;
  }

  async #connect(): Promise<PostgresStore> {
    const link = await this.#options.connect();
    this.#store = this.#storeOn(link);
    if (this.#closing.signal.aborted) {
      link.destroy();
      throw closed();
    }
    return this.#store;
  }

  #storeOn(link: Connection): PostgresStore {
    const { connect, tx, onConflict } = this.#options;
    watchForStall(link, { connect });
    return new PostgresStore(link, tx, onConflict);
  }

  /** Its state is unknown, so the connection is not used again. */
  #drop(store: PostgresStore | undefined): void {
    store?.link.destroy();
    if (this.#store === store) this.#store = undefined;
  }

  /** Its owner is about to close it: retries end soon. */
  hurry(): void {
    this.#hurriedUntil = Math.min(this.#hurriedUntil, performance.now() + HURRY_MS);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#connecting?.catch(() => {});
    await this.#store?.link.close();
  }
}

export function closed(): DibsError {
  return new DibsError("CLOSED", "The store was closed.");
}
