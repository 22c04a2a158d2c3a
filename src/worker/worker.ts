import { refuseSurplus } from "../core/arguments.ts";
import { claimLost, DibsError, isDibsError } from "../core/errors.ts";
import { KeepAlive } from "../core/keep-alive.ts";
import { LIMITS } from "../core/limits.ts";
import type { Logger } from "../core/logger.ts";
import type { ClaimNotice, Port } from "../core/port.ts";
import { Ahead } from "./ahead.ts";
import type { EncodeResult, NextCost } from "./claim.ts";
import { Deadlines } from "./deadlines.ts";
import { type Answer, ackAtOnce, answersOfBatch, runHandler, settle } from "./handle.ts";
import { type Held, setFate } from "./held.ts";
import type { FailureLog } from "./failure-log.ts";
import { Membership, pause } from "./membership.ts";
import { Observer } from "./observer.ts";
import { abortAfter, type ResolvedWork, resolveStop, type StopOptions } from "./options.ts";
import { LONGEST_MS, Prefetch } from "./prefetch.ts";
import { type BatchHandler, type Handler, Task } from "./task.ts";

/**
 * The worker that `queue.work()` starts. It claims tasks over the port, has handle.ts call the handler and settle, and
 * waits for its handlers when it is stopped.
 */

/** What a worker needs from a queue. */
export interface WorkerQueue {
  name: string;
  /** @internal */
  declare(): Promise<void>;
  /** @internal */
  encodeResult: EncodeResult;
  /** @internal For a stage: the cost of the next stage's task. */
  nextCost?: NextCost | undefined;
}

/**
 * Claims tasks and calls a handler on them.
 *
 *   starting ──joined──▶ working ──stop()──▶ draining ──▶ stopped
 *                          ▲  │
 *                          └──┘ session gone: its claims are lost, and it joins again
 */
type Phase = "starting" | "working" | "draining" | "stopped";

/** Pause between two attempts to claim while the store is unavailable. */
const TROUBLE_PAUSE_MS = 500;
/** With less room than this, two claims for half each are not worth it. */
const WORTH_HALVING = 32;
/** Handlers that compute run for this long before other callbacks of the process get a turn. */
const LONGEST_TURN_MS = 5;
/** While so many settlements are unanswered, no tasks are claimed: a slow store slows its workers down. */
const MOST_UNSETTLED = 4 * LIMITS.claimBatch;

export class Worker implements AsyncDisposable {
  /** The instance; `name` is its label. */
  readonly id: string;
  readonly name: string;
  readonly queues: readonly string[];
  /** Resolves when the worker has joined and claims tasks. */
  readonly ready: Promise<void>;
  /** Resolves when the worker has stopped: after stop(), or by itself after `limit` tasks. */
  readonly stopped: Promise<void>;

  readonly #port: Port;
  readonly #queues: Map<string, WorkerQueue>;
  readonly #handler: Handler<never> | BatchHandler<never>;
  readonly #options: ResolvedWork;
  readonly #logger: Logger;
  readonly #observer: Observer;
  readonly #onStopped: () => void;
  /** By fence, which is unique. */
  readonly #held = new Map<number, Held>();
  readonly #ahead: Ahead;
  readonly #prefetch: Prefetch;
  #settling = 0;
  readonly #keepAlive = new KeepAlive();
  /** A worker keeps its process alive, also while it only waits for a handler. */
  readonly #letProcessEnd: () => void;
  readonly #stopFetching = new AbortController();
  readonly #membership: Membership;
  readonly #deadlines: Deadlines;
  #phase: Phase = "starting";
  /** Handlers in progress. */
  #busy = 0;
  /** When the last handler ended. */
  #lastEnd = 0;
  /** Settlements that are being retried. Each occupies a slot: otherwise a full queue would slow no worker down. */
  #repeating = 0;
  /** The store may have claims for this worker that it does not know of. */
  #needsReconcile = false;
  /** Claims in progress. */
  #fetching = 0;
  /** Slots that they may fill. */
  #expected = 0;
  #justFetched = false;
  /** The last claim got as many tasks as it asked for, so there are probably more. */
  #isBacklogged = false;
  #isFillScheduled = false;
  #rotation = 0;
  /** Tasks claimed so far, for `limit`. */
  #taken = 0;
  #stopping: Promise<void> | undefined;
  readonly #resolveStopped: () => void;
  #onDrained: (() => void) | undefined;
  #shortenTimeout: ((timeout: number) => void) | undefined;

  constructor(
    port: Port,
    queues: WorkerQueue[],
    handler: Handler<never> | BatchHandler<never>,
    options: ResolvedWork,
    logger: Logger,
    failures: FailureLog,
    onStopped: () => void,
  ) {
    this.#port = port;
    this.#queues = new Map(queues.map((queue) => [queue.name, queue]));
    this.#handler = handler;
    this.#options = options;
    this.#logger = logger;
    this.#observer = new Observer(port, options.hooks, options.isLogging ? failures : undefined, logger);
    this.#onStopped = onStopped;
    this.id = options.id;
    this.name = options.name;
    this.queues = queues.map((queue) => queue.name);
    this.#membership = new Membership(
      port,
      { id: this.id, name: this.name, queues: this.queues, concurrency: options.concurrency },
      (notice, session) => this.#onNotice(notice, session),
      logger,
      this.#stopFetching.signal,
    );
    this.#deadlines = new Deadlines(
      port.clock,
      () => this.#held.values(),
      (held) => setFate(held, "timedOut", outOfTime(held)),
    );
    this.#prefetch = new Prefetch(options.prefetch, options.concurrency);
    this.#ahead = new Ahead(port.clock, this.#prefetch.isAuto ? LONGEST_MS : Number.POSITIVE_INFINITY, () =>
      this.#giveBackOverdue(),
    );
    this.#letProcessEnd = this.#keepAlive.hold();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.stopped = promise;
    this.#resolveStopped = resolve;
    this.ready = this.#start();
    // If the caller does not await it, the log reports a failed start.
    this.ready.catch((error: unknown) => {
      this.#letProcessEnd();
      if (this.#phase === "starting")
        logger.error(`Worker ${this.id} could not start: ${(error as Error).message}`);
    });
  }

  /** Tasks in their handlers. */
  get active(): number {
    return this.#held.size - this.#ahead.length;
  }

  /** Claims no more tasks, lets handlers finish, and releases the rest without counting an attempt. */
  stop(options: StopOptions = {}): Promise<void> {
    const timeout = resolveStop(options);
    // A second call may shorten the timeout.
    this.#shortenTimeout?.(timeout);
    this.#stopping ??= this.#drain(timeout).finally(() => {
      this.#letProcessEnd();
      this.#onStopped();
      this.#resolveStopped();
    });
    return this.#stopping;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  // ── Starting ────────────────────────────────────────────────────────────────────────────────────────────

  async #start(): Promise<void> {
    await this.#membership.join(() =>
      Promise.all([...this.#queues.values()].map((queue) => queue.declare())),
    );
    if (this.#phase !== "starting") return;
    this.#phase = "working";
    this.#scheduleFill();
  }

  // ── Fetching ────────────────────────────────────────────────────────────────────────────────────────────

  /** Runs after all promise callbacks of this turn: one claim refills all slots of handlers that end together. */
  #scheduleFill(): void {
    if (this.#isFillScheduled) return;
    this.#isFillScheduled = true;
    process.nextTick(() => {
      this.#isFillScheduled = false;
      this.#fill();
    });
  }

  #fill(): void {
    if (this.#phase !== "working") return;
    this.#startAhead();
    const room = this.#room();
    if (room <= 0) return;
    const part = this.#claimSize();
    if (this.#fetching === 0) void this.#fetch(Math.min(room, part), this.#mayWait ? LIMITS.workerWaitMs : 0);
    else if (this.#mayFetchSecond && room >= part) void this.#fetch(part, 0);
  }

  /** While a reconcile is needed, only one claim may be in progress: the tasks of another would look like lost ones. */
  get #mayFetchSecond(): boolean {
    return this.#fetching === 1 && this.#isBacklogged && !this.#justFetched && !this.#needsReconcile;
  }

  /**
   * How many tasks one claim asks for. With a backlog two claims are in progress, each for half: the store finds one
   * half while the other is handled, and neither waits for the other.
   */
  #claimSize(): number {
    const { concurrency, batch } = this.#options;
    if (batch !== null) return batch;
    const all = Math.min(concurrency + this.#prefetch.allowance, LIMITS.claimBatch);
    return this.#isBacklogged && all >= WORTH_HALVING ? Math.ceil(all / 2) : all;
  }

  #startAhead(): void {
    if (this.#ahead.length === 0) return;
    const start = this.#now();
    if (this.#ahead.isOverdue(start)) this.#giveBackOverdue();
    let longestWait = 0;
    let now = start;
    while (this.#freeSlots > 0 && this.#ahead.length > 0) {
      if (now - start > LONGEST_TURN_MS) {
        setImmediate(() => this.#scheduleFill());
        break;
      }
      const next = this.#ahead.shift()!;
      longestWait = Math.max(longestWait, now - next.claimedAt);
      this.#work([next], now);
      now = Math.max(now, this.#lastEnd);
    }
    this.#prefetch.waited(longestWait);
  }

  /** Handlers take longer than before: other workers may be free for what this one cannot start. */
  #giveBackOverdue(): void {
    const late = this.#ahead.takeAfter(this.#freeSlots);
    if (late.length === 0) return;
    this.#prefetch.gaveBack();
    this.#giveBackAll(late);
  }

  #now(): number {
    return this.#port.clock.read().awake;
  }

  #room(): number {
    const { batch } = this.#options;
    if (this.#settling >= MOST_UNSETTLED) return 0;
    if (batch !== null) return this.#freeSlots > 0 && this.#fetching === 0 ? batch : 0;
    const ahead = this.#mayWait || this.#isBacklogged ? this.#prefetch.allowance : 0;
    const free = this.#freeSlots + ahead - this.#ahead.length - this.#expected;
    return Math.min(free, LIMITS.claimBatch, this.#left - this.#expected);
  }

  /**
   * Whether a claim may wait for tasks. One that only prefetches may not: it would get a new task while another worker
   * is free.
   */
  get #mayWait(): boolean {
    return !this.#prefetch.isAuto || this.#freeSlots > this.#ahead.length + this.#expected;
  }

  get #freeSlots(): number {
    return this.#options.concurrency - this.#occupied;
  }

  /** Tasks that it may still claim. */
  get #left(): number {
    return (this.#options.limit ?? Number.POSITIVE_INFINITY) - this.#taken;
  }

  get #occupied(): number {
    return this.#busy + this.#repeating;
  }

  async #fetch(max: number, wait: number): Promise<void> {
    this.#fetching++;
    this.#expected += max;
    // Two claims in one batch would return together, and stay in step from then on. So the second one waits for a later
    // batch.
    this.#justFetched = true;
    setImmediate(() => {
      this.#justFetched = false;
      this.#scheduleFill();
    });
    const { session } = this.#membership;
    try {
      if (this.#needsReconcile) await this.#reconcile();
      const { tasks, policies } = await this.#port.claim({
        queues: this.#queuesInOrder(),
        max,
        worker: this.id,
        session,
        share: this.#options.order === "fair" ? Math.ceil(max / this.queues.length) : undefined,
        wait,
        signal: this.#stopFetching.signal,
      });
      this.#taken += tasks.length;
      this.#isBacklogged = tasks.length === max;
      const claimedAt = this.#now();
      const fetched = tasks.map((claimed): Held => {
        const held: Held = {
          claimed,
          policy: policies[claimed.queue]!,
          session,
          claimedAt,
          startedAt: claimedAt,
          deadline: Number.POSITIVE_INFINITY,
          task: null,
          fate: "working",
          stopWaiting: null,
        };
        this.#held.set(claimed.fence, held);
        return held;
      });
      this.#prefetch.learn(policies);
      // The worker was stopped during the claim: no handler will start.
      if (this.#phase !== "working") this.#giveBackAll(fetched);
      else if (this.#options.batch === null) this.#ahead.push(fetched);
      else if (fetched.length > 0) this.#work(fetched, claimedAt);
      if (this.#prefetch.isLimited) this.#giveBackAll(this.#ahead.takeAfter(this.#freeSlots));
    } catch (error) {
      await this.#afterFailedFetch(error, session);
    } finally {
      this.#fetching--;
      this.#expected -= max;
    }
    this.#scheduleFill();
  }

  /** The answer of a claim was lost. Without this, its tasks would stay claimed by us and no handler would get them. */
  async #reconcile(): Promise<void> {
    await this.#port.reconcile(this.#membership.session!, [...this.#held.keys()]);
    this.#needsReconcile = false;
  }

  /** With "fair", each queue comes first in rotation. */
  #queuesInOrder(): string[] {
    if (this.#options.order === "strict" || this.queues.length === 1) return [...this.queues];
    const start = this.#rotation++ % this.queues.length;
    return [...this.queues.slice(start), ...this.queues.slice(0, start)];
  }

  async #afterFailedFetch(error: unknown, session: number | undefined): Promise<void> {
    if (this.#stopFetching.signal.aborted) return;
    if (isDibsError(error) && error.code === "CLAIM_LOST") {
      // Two claims may learn that the session is gone. Only one of them joins again.
      return this.#membership.session === session ? this.#rejoin() : undefined;
    }
    if (isDibsError(error) && error.code === "OUTCOME_UNKNOWN") this.#needsReconcile = true;
    if (isDibsError(error) && !error.retryable) {
      if (error.code !== "CLOSED") this.#logger.error(`Worker ${this.id} stops: ${error.message}`);
      return void this.stop();
    }
    this.#logger.warn(`Worker ${this.id} could not claim, trying again: ${(error as Error).message}`);
    await pause(this.#port.clock, TROUBLE_PAUSE_MS, this.#stopFetching.signal);
  }

  // ── Notices from the store ─────────────────────────────────────────────────────────────────────────────

  #onNotice(notice: ClaimNotice, session: number): void {
    if (notice.kind === "gone") {
      for (const held of this.#held.values()) if (held.session === session) this.#lose(held);
      // A refused claim may have reported this already, and a new session has begun: its claims are not lost.
      if (session === this.#membership.session) void this.#rejoin();
      return;
    }
    const held = this.#held.get(notice.fence);
    if (!held) return;
    if (notice.kind === "cancel") this.#cancel(held);
    else this.#lose(held, notice.kind === "timeout" ? outOfTime(held) : undefined);
  }

  #lose(held: Held, reason: DibsError = claimLost(held.claimed.id, held.claimed.fence)): void {
    this.#drop(held);
    if (held.task) this.#observer.lost(held.task, reason);
    setFate(held, "lost", reason);
  }

  #cancel(held: Held): void {
    setFate(held, "cancelled", new DibsError("TASK_CANCELLED", `Task ${held.claimed.id} was cancelled.`));
    if (held.task) return;
    this.#drop(held);
    this.#track(this.#giveBack(held), held);
  }

  /** Forgets the task if it was prefetched. */
  #drop(held: Held): void {
    if (this.#ahead.remove(held)) this.#held.delete(held.claimed.fence);
  }

  async #rejoin(): Promise<void> {
    if (this.#phase !== "working") return;
    try {
      await this.#membership.join();
    } catch (error) {
      if (this.#phase !== "working") return;
      this.#logger.error(
        `Worker ${this.id} stops, because it cannot join again: ${(error as Error).message}`,
      );
      return void this.stop();
    }
    this.#scheduleFill();
  }

  // ── Working ─────────────────────────────────────────────────────────────────────────────────────────────

  #work(job: Held[], now: number): void {
    this.#busy++;
    for (const held of job) this.#begin(held, now);
    const tasks = job.map((held) => held.task!);
    runHandler(
      job,
      () => this.#callHandler(tasks),
      (answer) => this.#answered(job, tasks, answer),
    );
  }

  #begin(held: Held, now: number): void {
    const { claimed, policy } = held;
    const { encodeResult, nextCost } = this.#queues.get(claimed.queue)!;
    held.startedAt = now;
    held.task = new Task(this.#port, claimed, encodeResult, nextCost);
    held.task.observer = this.#observer;
    this.#observer.claimed(held.task);
    held.task.onExtended = (lease) => {
      const extendedAt = this.#now();
      this.#deadlines.set(held, extendedAt + lease, extendedAt);
    };
    // The engine counts the timeout from the claim. A task that waited long before it started gets its full time.
    const lay = now - held.claimedAt;
    if (lay > policy.timeout / 10) this.#port.extend(claimed, policy.timeout).catch(() => {});
    this.#deadlines.set(held, now + policy.timeout, now);
  }

  #answered(job: Held[], tasks: Task[], answer: Answer): void {
    // The slot is free now. The settlements share a commit with the next claim.
    this.#busy--;
    this.#lastEnd = this.#now();
    this.#prefetch.handled(this.#lastEnd - job[0]!.startedAt);
    if (this.#options.batch === null) {
      this.#finish(job[0]!, answer);
    } else {
      const answers = answersOfBatch(answer, tasks);
      for (const [index, held] of job.entries()) this.#finish(held, answers[index]!);
    }
    this.#scheduleFill();
  }

  #callHandler(tasks: Task[]): unknown {
    if (this.#options.batch === null) return (this.#handler as Handler)(tasks[0] as Task);
    return (this.#handler as BatchHandler)(tasks);
  }

  #finish(held: Held, answer: Answer): void {
    held.deadline = Number.POSITIVE_INFINITY;
    const acked = ackAtOnce(held, answer);
    if (acked) this.#track(acked, held, (error) => this.#settle(held, answer, { error }));
    else this.#track(this.#settle(held, answer), held);
  }

  async #settle(held: Held, answer: Answer, failure?: { error: unknown }): Promise<void> {
    try {
      await settle(this.#settlingContext, held, answer, failure);
    } catch (error) {
      this.#logger.error(`Task ${held.claimed.id} could not be settled: ${(error as Error).message}`);
    }
  }

  readonly #settlingContext = {
    now: () => this.#now(),
    pause: (ms: number) => new Promise<void>((resolve) => this.#port.clock.after(ms, resolve)),
    warn: (message: string) => this.#logger.warn(message),
    onTrouble: (isTrouble: boolean) => {
      this.#repeating += isTrouble ? 1 : -1;
      if (!isTrouble) this.#scheduleFill();
    },
  };

  /** Forgets the task when `work`, or the handling of its failure, is done. */
  #track(work: Promise<void>, held: Held, otherwise?: (reason: unknown) => Promise<void>): void {
    this.#settling++;
    const over = (): void => {
      this.#held.delete(held.claimed.fence);
      if (this.#settling-- === MOST_UNSETTLED) this.#scheduleFill();
      if (this.#held.size > 0 || this.#settling > 0) return;
      this.#onDrained?.();
      if (this.#left <= 0) void this.stop();
    };
    void work.then(over, otherwise && ((reason: unknown) => otherwise(reason).then(over)));
  }

  // ── Stopping ────────────────────────────────────────────────────────────────────────────────────────────

  async #drain(timeout: number): Promise<void> {
    this.#phase = "draining";
    const letProcessEnd = this.#keepAlive.hold();
    this.#stopFetching.abort(new DibsError("CLOSED", "The worker was stopped."));
    await this.ready.catch(() => {});
    // Retire first: released tasks must not be reserved for this worker again.
    if (this.#held.size > 0) this.#membership.retire();
    this.#ahead.stop();
    this.#giveBackAll(this.#ahead.takeAfter(0));
    const stopAborting = this.#port.clock.after(abortAfter(timeout), () => this.#askToStop());
    await this.#drained(timeout);
    stopAborting();
    this.#deadlines.stop();
    for (const held of this.#held.values()) this.#leaveBehind(held);
    await this.#membership.leave();
    this.#phase = "stopped";
    letProcessEnd();
  }

  #giveBackAll(tasks: readonly Held[]): void {
    for (const held of tasks) this.#track(this.#giveBack(held), held);
  }

  /** Releases a task that was prefetched and not started, as if never claimed. */
  async #giveBack(held: Held): Promise<void> {
    this.#held.delete(held.claimed.fence);
    this.#taken--;
    try {
      await this.#port.settle(held.claimed, { kind: "release", started: false });
    } catch (error) {
      // The store may still count it as claimed by this worker, which no longer knows it.
      if (!isDibsError(error) || error.code !== "CLAIM_LOST") this.#needsReconcile = true;
    }
  }

  #askToStop(): void {
    for (const held of this.#held.values())
      setFate(held, "stopped", new DibsError("CLOSED", "The worker is stopping."));
  }

  /** Its handler did not end in time. Leaving releases the task, and what the handler answers later has no effect. */
  #leaveBehind(held: Held): void {
    setFate(held, "lost", claimLost(held.claimed.id, held.claimed.fence));
  }

  #drained(timeout: number): Promise<void> {
    if (this.#held.size === 0 && this.#settling === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timers = [this.#port.clock.after(timeout, resolve)];
      this.#shortenTimeout = (sooner) => {
        timers.push(this.#port.clock.after(sooner, resolve));
        timers.push(this.#port.clock.after(abortAfter(sooner), () => this.#askToStop()));
      };
      this.#onDrained = () => {
        for (const stopTimer of timers) stopTimer();
        resolve();
      };
    });
  }
}

/** The handler gets the same error from this worker's timer and from the store's heartbeat, whichever is first. */
function outOfTime({ claimed, policy }: Held): DibsError {
  return new DibsError(
    "TIMEOUT",
    `Task ${claimed.id} took longer than its queue's timeout of ${policy.timeout} ms.`,
  );
}

refuseSurplus(Worker, "worker", { promises: { stop: "options" } });
