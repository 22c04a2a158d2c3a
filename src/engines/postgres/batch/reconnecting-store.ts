import { setTimeout as sleep } from "node:timers/promises";
import { DibsError } from "../../../core/errors.ts";
import type { Op } from "../../../engine/engine.ts";
import { type FailureClass, failureFrom, classifyFailure, outcomeUnknown } from "../connection/failure.ts";
import { commitOutcome } from "../connection/incarnation.ts";
import type { Connection } from "../connection/connection.ts";
import { watchForStall } from "../connection/stall-check.ts";
import { CommitLost, type BatchResult, type RunOptions } from "./batch-result.ts";
import { type OnConflict, PostgresStore } from "./store.ts";
import type { TxOptions } from "../transaction/tx.ts";

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1_000;
/** A program that was asked to end is killed when it takes long. */
const HURRY_MS = 2_000;

const MAY_PASS: ReadonlySet<FailureClass> = new Set(["reconnect", "later"]);

export interface ReachOptions {
  connect: () => Promise<Connection>;
  tx: TxOptions;
  /** For messages; nothing secret. */
  where: string;
  /** What was certainly not carried out is tried again for so many milliseconds, before its caller is told. */
  patience: number;
  onConflict?: OnConflict | undefined;
}

/**
 * A store behind a connection that may be lost: made anew when it is needed. A batch that did not reach its commit is
 * simply run again. Of one that did the server is asked what became of it.
 */
export class ReconnectingStore {
  readonly #options: ReachOptions;
  readonly #closing = new AbortController();
  #store: PostgresStore | undefined;
  #connecting: Promise<PostgresStore> | undefined;
  #isLost = false;
  /** Batches that failed on the way, and are tried again or asked about. */
  #inTrouble = 0;
  /** What the last batch was sent to. */
  #used: PostgresStore | undefined;
  #hurriedUntil = Number.POSITIVE_INFINITY;

  constructor(options: ReachOptions, link?: Connection) {
    this.#options = options;
    if (link) this.#store = this.#storeOn(link);
  }

  /** The last try did not get through. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /**
   * `before` settles when the one before this has its answer: where both were lost, that one goes first again. `askedAt`: when
   * its caller asked, which is what patience counts from.
   */
  async run(
    ops: readonly Op[],
    { before, askedAt, ...options }: RunOptions & { before?: Promise<unknown>; askedAt?: number } = {},
  ): Promise<BatchResult> {
    return this.#persist(async (store) => store.run(ops, options), before, askedAt);
  }

  /** A question that may be asked any number of times. */
  async ask<T>(question: (store: PostgresStore) => Promise<T>): Promise<T> {
    return this.#persist(question);
  }

  /** The same, once: for what is not worth waiting for a server that is away. */
  async askOnce<T>(question: (store: PostgresStore) => Promise<T>): Promise<T> {
    return question(await this.connected());
  }

  async #persist<T>(
    work: (store: PostgresStore) => Promise<T>,
    before?: Promise<unknown>,
    askedAt = performance.now(),
  ): Promise<T> {
    const { where, patience } = this.#options;
    const until = askedAt + patience;
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
            const ran = await this.#resolve(error, until);
            if (ran) return ran as T;
          } else if (!MAY_PASS.has(classifyFailure(error)) || this.#isTooLate(until, pause)) {
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
   * A batch may be sent while those before it have no answer yet, on their connection. On another one they go first, for they
   * are run again there: of two transactions at once on one connection the first commit would end both.
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

  /** What it would have answered, where it did commit; undefined where it certainly did not. */
  async #resolve(lost: CommitLost, until: number): Promise<BatchResult | undefined> {
    for (
      let pause = FIRST_PAUSE_MS;
      !this.#isTooLate(until, pause);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS)
    ) {
      await this.#rest(pause);
      try {
        const fate = await commitOutcome((await this.connected()).link, lost.mark);
        if (fate === "aborted") return undefined;
        if (fate === "committed") return lost.ran;
        if (fate !== "in progress") break;
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

  /** The connection, made if there is none. */
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

  /** It may be in the midst of something: it is not used again. */
  #drop(store: PostgresStore | undefined): void {
    store?.link.destroy();
    if (this.#store === store) this.#store = undefined;
  }

  /** Its owner is about to close it: what cannot be reached is not tried for much longer. */
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
