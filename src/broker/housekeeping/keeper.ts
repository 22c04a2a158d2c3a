import type { Clock } from "../../core/clock.ts";
import { isDibsError } from "../../core/errors.ts";
import type { DueDocument, Op, VerbName, Verbs } from "../../engine/engine.ts";

/** Retention is seen to this often. */
const PRUNE_EVERY_MS = 15_000;
const PRUNE_PAGE = 1_000;

type Run = <V extends VerbName>(op: Op<V>) => Promise<Verbs[V]["out"]>;

/**
 * Sleeps until the next thing is due, then has the engine deal with it. Any number of processes may do so:
 * whoever comes first finds the work, the others find none.
 */
export class Keeper {
  readonly #run: Run;
  readonly #clock: Clock;
  /** Looks after the store at least this often: what a hint missed waits no longer. */
  readonly #pollEvery: number;
  readonly #onPoll: () => void;
  readonly #onDue: () => void;
  /** Sees to documents whose time has come; answers whether to look again at once. */
  readonly #fire: (due: readonly DueDocument[], now: number) => Promise<boolean>;
  readonly #onFault: (error: unknown) => void;
  /** What it was told of last. */
  #fault: string | undefined;
  #stopTimer: (() => void) | undefined;
  #wakeAt = Number.POSITIVE_INFINITY;
  #prunedAt: number;
  #polledAt: number;
  #tending = false;
  /** The earliest of what was said while the store was being asked. */
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
    // What is said while the store is being asked may not be part of its answer.
    if (this.#tending) this.#expectedAt = Math.min(this.#expectedAt, this.#now() + ms);
    else if (!this.#closed && this.#now() + ms < this.#wakeAt) this.#sleep(ms);
  }

  /** Another process changed something: what is due next may be another thing. */
  lookAgain(): void {
    this.expect(0);
  }

  close(): void {
    this.#closed = true;
    this.#stopTimer?.();
  }

  /** Timers count awake time: after the machine slept, one that is late must not hide one that is sooner. */
  #now(): number {
    return this.#clock.read().awake;
  }

  #sleep(ms: number): void {
    this.#stopTimer?.();
    this.#wakeAt = this.#now() + ms;
    this.#stopTimer = this.#clock.after(ms, () => void this.#tend());
  }

  async #tend(): Promise<void> {
    this.#tending = true;
    this.#expectedAt = Number.POSITIVE_INFINITY;
    let next = this.#pollEvery;
    const askedAt = this.#now();
    try {
      const tended = this.#run({ verb: "housekeep" });
      // In the same batch: an idle process is woken once for both.
      if (this.#now() - this.#polledAt >= this.#pollEvery / 2) this.#poll();
      // So does a claim that waits for what is due: it need not be told, and saves a commit.
      else this.#onDue();
      const { next: soonest, now, due } = await tended;
      // It counts from when the store looked, which was after it was asked; part of it has passed on the way here.
      if (soonest !== null) next = Math.min(next, Math.max(0, soonest - (this.#now() - askedAt)));
      if (due.length > 0 && (await this.#fire(due, now))) next = 0;
      if (this.#now() - this.#prunedAt >= PRUNE_EVERY_MS) await this.#prune();
      this.#fault = undefined;
    } catch (error) {
      // Whoever uses the store is told of its troubles by their own calls; the keeper just tries again.
      if (!isDibsError(error)) this.#tell(error);
    }
    this.#tending = false;
    if (!this.#closed) this.#sleep(Math.max(0, Math.min(next, this.#expectedAt - this.#now())));
  }

  /** Nobody waits for this promise: an error that is no trouble of the store's would end the whole program. */
  #tell(error: unknown): void {
    const { message } = error as Error;
    // Once, and not with every look.
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
