import type { Clock } from "../../core/time/clock.ts";
import { isDibsError } from "../../core/errors/errors.ts";
import type { DueDocument } from "../../engine/documents.ts";
import type { Op, VerbName, Verbs } from "../../engine/engine.ts";

/** How often to remove tasks past their retention. */
const PRUNE_EVERY_MS = 15_000;
const PRUNE_PAGE = 1_000;

type Run = <V extends VerbName>(op: Op<V>) => Promise<Verbs[V]["out"]>;

/**
 * Sleeps until the next due time, then has the engine process what is due. Any number of processes may do so: the first
 * one finds the work, and the others find none.
 */
export class Housekeeper {
  readonly #run: Run;
  readonly #clock: Clock;
  /** Polls at least this often, for what a hint missed. */
  readonly #pollEvery: number;
  readonly #onPoll: () => void;
  readonly #onDue: () => void;
  /** Processes due documents. Returns whether to check again at once. */
  readonly #fire: (due: readonly DueDocument[], now: number) => Promise<boolean>;
  readonly #onFault: (error: unknown) => void;
  /** The last fault that was reported. */
  #fault: string | undefined;
  #stopTimer: (() => void) | undefined;
  #wakeAt = Number.POSITIVE_INFINITY;
  #prunedAt: number;
  #polledAt: number;
  #isBusy = false;
  /** The earliest due time that was announced during the current call. */
  #expectedAt = Number.POSITIVE_INFINITY;
  #closed = false;

  constructor(
    run: Run,
    clock: Clock,
    pollEvery: number,
    onPoll: () => void,
    onDue: () => void,
    fire: (due: readonly DueDocument[], now: number) => Promise<boolean>,
    onFault: (error: unknown) => void,
  ) {
    this.#run = run;
    this.#fire = fire;
    this.#onFault = onFault;
    this.#clock = clock;
    this.#pollEvery = pollEvery;
    this.#onPoll = onPoll;
    this.#onDue = onDue;
    this.#prunedAt = this.#polledAt = this.#now();
    this.#sleep(pollEvery);
  }

  /** Something will be due in `ms`. */
  expect(ms: number): void {
    // The answer of a call in progress may not include what is announced now.
    if (this.#isBusy) this.#expectedAt = Math.min(this.#expectedAt, this.#now() + ms);
    else if (!this.#closed && this.#now() + ms < this.#wakeAt) this.#sleep(ms);
  }

  /** Another process changed something: the next due time may be different. */
  checkNow(): void {
    this.expect(0);
  }

  close(): void {
    this.#closed = true;
    this.#stopTimer?.();
  }

  /** Timers count awake time: after the machine slept, a late timer must not hide an earlier one. */
  #now(): number {
    return this.#clock.read().awake;
  }

  #sleep(ms: number): void {
    this.#stopTimer?.();
    this.#wakeAt = this.#now() + ms;
    this.#stopTimer = this.#clock.after(ms, () => void this.#housekeep());
  }

  async #housekeep(): Promise<void> {
    this.#isBusy = true;
    this.#expectedAt = Number.POSITIVE_INFINITY;
    let next = this.#pollEvery;
    const askedAt = this.#now();
    try {
      const tended = this.#run({ verb: "housekeep" });
      // The poll joins the batch of `housekeep`, so that an idle process wakes once for both.
      if (this.#now() - this.#polledAt >= this.#pollEvery / 2) this.#poll();
      // A claim that waits for a due task joins this batch too: it needs no hint, and saves a commit.
      else this.#onDue();
      const { next: soonest, now, due } = await tended;
      // `soonest` counts from the moment at which the store answered. Part of it has passed since then.
      if (soonest !== null) next = Math.min(next, Math.max(0, soonest - (this.#now() - askedAt)));
      if (due.length > 0 && (await this.#fire(due, now))) next = 0;
      if (this.#now() - this.#prunedAt >= PRUNE_EVERY_MS) await this.#prune();
      this.#fault = undefined;
    } catch (error) {
      // Callers learn of the store's faults from their own calls. The housekeeper only retries.
      if (!isDibsError(error)) this.#report(error);
    }
    this.#isBusy = false;
    if (!this.#closed) this.#sleep(Math.max(0, Math.min(next, this.#expectedAt - this.#now())));
  }

  /**
   * Reports an error that is not the store's. Nothing awaits the promise of housekeeping, so a throw would crash the
   * program.
   */
  #report(error: unknown): void {
    const { message } = error as Error;
    // Report a fault once, not at every check.
    if (message !== this.#fault) this.#onFault(error);
    this.#fault = message;
  }

  #poll(): void {
    this.#polledAt = this.#now();
    this.#onPoll();
  }

  async #prune(): Promise<void> {
    while (!this.#closed && (await this.#run({ verb: "prune", limit: PRUNE_PAGE })).more);
    this.#prunedAt = this.#now();
  }
}
