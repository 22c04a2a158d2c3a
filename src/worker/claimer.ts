import type { Clock } from "../core/time/clock.ts";
import { isDibsError } from "../core/errors/errors.ts";
import { LIMITS } from "../core/input/limits.ts";
import type { Logger } from "../core/process/logger.ts";
import type { Port } from "../core/port.ts";
import type { HeldTasks } from "./held-tasks.ts";
import { type Membership, pause } from "./membership.ts";
import type { ResolvedWork } from "./options.ts";
import type { Prefetch } from "./prefetch.ts";
import { Rotation } from "./rotation.ts";
import type { Runner } from "./runner.ts";

/**
 * Keeps the slots of one worker filled: decides how many tasks to claim, claims them, and starts them or gives them
 * back. worker.ts creates it. The rules of prefetching are in prefetch.ts.
 */

/** Pause between two attempts to claim while the store is unavailable. */
const TROUBLE_PAUSE_MS = 500;
/** With fewer slots and prefetched tasks than this, one claim is in progress at a time. See #claimSize. */
const MIN_FOR_TWO_CLAIMS = 32;
/** After starting handlers for this long (they may compute), other callbacks of the process are called first. */
const MAX_TURN_MS = 5;

/** What a claimer needs from its worker. */
export interface ClaimerParts {
  port: Port;
  queues: readonly string[];
  options: ResolvedWork;
  membership: Membership;
  held: HeldTasks;
  prefetch: Prefetch;
  runner: Runner;
  logger: Logger;
  /** Aborts when the worker stops. */
  stopped: AbortSignal;
  /** The session is gone. Resolves once the worker has joined again. */
  rejoin: () => Promise<void>;
  /** The store refuses this worker. */
  stop: () => void;
}

export class Claimer {
  readonly #parts: ClaimerParts;
  readonly #clock: Clock;
  readonly #options: ResolvedWork;
  readonly #held: HeldTasks;
  readonly #prefetch: Prefetch;
  readonly #runner: Runner;
  /** Claims in progress. */
  #fetching = 0;
  /** The most tasks that these may return. */
  #expected = 0;
  /** A claim was sent in this turn of the event loop. */
  #justFetched = false;
  /** The last claim got as many tasks as it asked for, so there are probably more. */
  #isBacklogged = false;
  #isFillScheduled = false;
  readonly #rotation: Rotation | undefined;

  constructor(parts: ClaimerParts) {
    this.#parts = parts;
    this.#clock = parts.port.clock;
    this.#options = parts.options;
    this.#held = parts.held;
    this.#prefetch = parts.prefetch;
    this.#runner = parts.runner;
    const isRotating = parts.options.order === "fair" && parts.queues.length > 1;
    this.#rotation = isRotating ? new Rotation(parts.queues) : undefined;
  }

  /** Claims later in this turn of the event loop, so that one claim fills the slots of all handlers that end together. */
  scheduleFill(): void {
    if (this.#isFillScheduled) return;
    this.#isFillScheduled = true;
    process.nextTick(() => {
      this.#isFillScheduled = false;
      this.#fill();
    });
  }

  /** Gives back prefetched tasks because handlers take longer than before: other workers may be free for them. */
  giveBackOverdue(): void {
    const late = this.#held.ahead.takeAfter(this.#runner.freeSlots);
    if (late.length === 0) return;
    this.#prefetch.gaveBack();
    this.#held.giveBack(late);
  }

  #fill(): void {
    if (this.#parts.stopped.aborted) return;
    this.#startAhead();
    const room = this.#room();
    if (room <= 0) {
      if (this.#held.needsReconcile && this.#fetching === 0) void this.#fetch(0, 0);
      return;
    }
    const part = this.#claimSize();
    if (this.#fetching === 0) void this.#fetch(Math.min(room, part), this.#mayWait ? LIMITS.workerWaitMs : 0);
    else if (this.#mayFetchSecond && room >= part) void this.#fetch(part, 0);
  }

  #startAhead(): void {
    const { ahead } = this.#held;
    if (ahead.length === 0) return;
    const start = this.#now();
    if (ahead.isOverdue(start)) this.giveBackOverdue();
    let longestWait = 0;
    let now = start;
    while (this.#runner.freeSlots > 0 && ahead.length > 0) {
      if (now - start > MAX_TURN_MS) {
        setImmediate(() => this.scheduleFill());
        break;
      }
      const next = ahead.shift()!;
      longestWait = Math.max(longestWait, now - next.claimedAt);
      this.#runner.start([next], now);
      now = Math.max(now, this.#runner.lastEnd);
    }
    this.#prefetch.waited(longestWait);
  }

  // ── How much ────────────────────────────────────────────────────────────────────────────────────────────

  #room(): number {
    const { batch } = this.#options;
    const { freeSlots } = this.#runner;
    if (this.#held.hasTooManyUnsettled) return 0;
    if (batch !== null) return freeSlots > 0 && this.#fetching === 0 ? batch : 0;
    const ahead = this.#mayWait || this.#isBacklogged ? this.#prefetch.allowance : 0;
    const free = freeSlots + ahead - this.#held.ahead.length - this.#expected;
    return Math.min(free, LIMITS.claimBatch, this.#held.left - this.#expected);
  }

  /**
   * How many tasks one claim requests. With a backlog two claims are in progress, each for half of the room: the store
   * executes one while the tasks of the other are handled, so neither the store nor the handlers wait.
   */
  #claimSize(): number {
    const { concurrency, batch } = this.#options;
    if (batch !== null) return batch;
    const all = Math.min(concurrency + this.#prefetch.allowance, LIMITS.claimBatch);
    return this.#isBacklogged && all >= MIN_FOR_TWO_CLAIMS ? Math.ceil(all / 2) : all;
  }

  /**
   * Whether a claim may wait for tasks. A claim that only prefetches may not: it would get a new task although another
   * worker has a free slot.
   */
  get #mayWait(): boolean {
    return !this.#prefetch.isAuto || this.#runner.freeSlots > this.#held.ahead.length + this.#expected;
  }

  /** While a reconcile is needed, only one claim may be in progress: the tasks of another would look like lost ones. */
  get #mayFetchSecond(): boolean {
    return this.#fetching === 1 && this.#isBacklogged && !this.#justFetched && !this.#held.needsReconcile;
  }

  // ── Claiming ────────────────────────────────────────────────────────────────────────────────────────────

  /** Claims up to `max` tasks, after a reconcile if one is needed. With 0, it only reconciles. */
  async #fetch(max: number, wait: number): Promise<void> {
    this.#fetching++;
    this.#expected += max;
    // Two claims in one batch would return at the same time, and so would all later ones. So the second claim is sent in
    // a later batch.
    this.#justFetched = true;
    setImmediate(() => {
      this.#justFetched = false;
      this.scheduleFill();
    });
    const { session } = this.#parts.membership;
    try {
      if (this.#held.needsReconcile) await this.#held.reconcile(session!);
      if (max > 0) await this.#claim(max, wait, session);
    } catch (error) {
      await this.#afterFailedFetch(error, session);
    } finally {
      this.#fetching--;
      this.#expected -= max;
    }
    this.scheduleFill();
  }

  async #claim(max: number, wait: number, session: number | undefined): Promise<void> {
    const { port, queues, options, stopped } = this.#parts;
    const turn = this.#rotation?.next(max);
    const { tasks, policies } = await port.claim({
      queues: turn?.queues ?? [...queues],
      max,
      worker: options.id,
      session,
      share: turn?.share,
      wait,
      signal: stopped,
    });
    if (turn) this.#rotation!.took(turn, tasks);
    this.#isBacklogged = tasks.length === max;
    const claimedAt = this.#now();
    const fetched = this.#held.add(tasks, policies, session, claimedAt);
    this.#prefetch.learn(policies);
    // If the worker was stopped during the claim, no handler will start.
    if (stopped.aborted) this.#held.giveBack(fetched);
    else if (options.batch === null) this.#held.ahead.push(fetched);
    else if (fetched.length > 0) this.#runner.start(fetched, claimedAt);
    if (this.#prefetch.isLimited) this.#held.giveBack(this.#held.ahead.takeAfter(this.#runner.freeSlots));
  }

  async #afterFailedFetch(error: unknown, session: number | undefined): Promise<void> {
    const { membership, logger, stopped, options } = this.#parts;
    if (stopped.aborted) return;
    if (isDibsError(error) && error.code === "CLAIM_LOST") {
      // Two claims may report that the session is gone. Only the first one joins again.
      return membership.session === session ? this.#parts.rejoin() : undefined;
    }
    if (isDibsError(error) && error.code === "OUTCOME_UNKNOWN") this.#held.answerWasLost();
    if (isDibsError(error) && !error.retryable) {
      if (error.code !== "CLOSED") logger.error(`Worker ${options.id} stops: ${error.message}`);
      return this.#parts.stop();
    }
    logger.warn(`Worker ${options.id} could not claim, trying again: ${(error as Error).message}`);
    await pause(this.#parts.port.clock, TROUBLE_PAUSE_MS, stopped);
  }

  #now(): number {
    return this.#clock.read().awake;
  }
}
