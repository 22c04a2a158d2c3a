import { refuseSurplus } from "../core/arguments.ts";
import { claimLost, DibsError, isDibsError } from "../core/errors.ts";
import { KeepAlive } from "../core/keep-alive.ts";
import { LIMITS } from "../core/limits.ts";
import type { Logger } from "../core/logger.ts";
import type { ClaimNotice, Port } from "../core/port.ts";
import type { EncodeResult, NextCost } from "./claim.ts";
import { Deadlines } from "./deadlines.ts";
import { type Answer, ackAtOnce, answersOfBatch, runHandler, settle } from "./handle.ts";
import { type Held, suffer } from "./held.ts";
import { Membership, pause } from "./membership.ts";
import { abortAfter, type ResolvedWork, resolveStop, type StopOptions } from "./options.ts";
import { type BatchHandler, type Handler, Task } from "./task.ts";

/** A queue as a worker needs it. */
export interface WorkerQueue {
  name: string;
  declare(): Promise<void>;
  encodeResult: EncodeResult;
  /** Of a stage: what the task of the next one costs. */
  nextCost?: NextCost | undefined;
}

/**
 * Claims tasks and runs a handler on them.
 *
 *   starting ──joined──▶ working ──stop()──▶ draining ──▶ stopped
 *                          ▲  │
 *                          └──┘ session gone: what it held is lost, it joins again
 */
type Phase = "starting" | "working" | "draining" | "stopped";

/** Between two tries to claim, while the store is in trouble. */
const TROUBLE_PAUSE_MS = 500;
/** Halves of fewer places are not worth a claim each. */
const WORTH_HALVING = 32;

export class Worker implements AsyncDisposable {
  /** The instance; `name` is its label. */
  readonly id: string;
  readonly name: string;
  readonly queues: readonly string[];
  /** Resolves when the worker has joined and asks for tasks. */
  readonly ready: Promise<void>;

  readonly #port: Port;
  readonly #queues: Map<string, WorkerQueue>;
  readonly #handler: Handler<never> | BatchHandler<never>;
  readonly #options: ResolvedWork;
  readonly #logger: Logger;
  readonly #onStopped: () => void;
  /** By fence: no two claims share one. */
  readonly #held = new Map<number, Held>();
  readonly #ahead: Held[] = [];
  #settling = 0;
  readonly #keepAlive = new KeepAlive();
  /** A process with a worker lives as long as that, also while all it does is wait for a handler. */
  readonly #letProcessEnd: () => void;
  readonly #stopFetching = new AbortController();
  readonly #membership: Membership;
  readonly #deadlines: Deadlines;
  #phase: Phase = "starting";
  /** Handlers at work. */
  #busy = 0;
  /** Settlements that the store did not take yet. Each holds a place, or a full queue would slow nobody down. */
  #repeating = 0;
  /** The store may hold something for us that we do not know of. */
  #isUnsure = false;
  /** Claims under way. */
  #fetching = 0;
  /** Places that they may fill. */
  #expected = 0;
  #justFetched = false;
  /** The last claim came back with all it asked for: there is probably more. */
  #isPlenty = false;
  #fillAsked = false;
  #turn = 0;
  #stopped: Promise<void> | undefined;
  #onDrained: (() => void) | undefined;
  #hurry: ((timeout: number) => void) | undefined;

  constructor(
    port: Port,
    queues: WorkerQueue[],
    handler: Handler<never> | BatchHandler<never>,
    options: ResolvedWork,
    logger: Logger,
    onStopped: () => void,
  ) {
    this.#port = port;
    this.#queues = new Map(queues.map((queue) => [queue.name, queue]));
    this.#handler = handler;
    this.#options = options;
    this.#logger = logger;
    this.#onStopped = onStopped;
    this.id = options.id;
    this.name = options.name;
    this.queues = queues.map((queue) => queue.name);
    this.#membership = new Membership(
      port,
      { id: this.id, name: this.name, queues: this.queues, concurrency: options.concurrency },
      (notice, session) => this.#hear(notice, session),
      logger,
      this.#stopFetching.signal,
    );
    this.#deadlines = new Deadlines(
      port.clock,
      () => this.#held.values(),
      (held) => suffer(held, "timedOut", outOfTime(held)),
    );
    this.#letProcessEnd = this.#keepAlive.hold();
    this.ready = this.#start();
    // Whoever does not await it learns of a failed start from the log.
    this.ready.catch((error: unknown) => {
      this.#letProcessEnd();
      if (this.#phase === "starting")
        logger.error(`Worker ${this.id} could not start: ${(error as Error).message}`);
    });
  }

  /** Tasks whose handler is at work. */
  get active(): number {
    return this.#held.size - this.#ahead.length;
  }

  /** Takes no more tasks, lets handlers finish, and gives back what is left without using up an attempt. */
  stop(options: StopOptions = {}): Promise<void> {
    const timeout = resolveStop(options);
    // Whoever asks again is in a hurry.
    this.#hurry?.(timeout);
    this.#stopped ??= this.#drain(timeout).finally(() => {
      this.#letProcessEnd();
      this.#onStopped();
    });
    return this.#stopped;
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
    this.#askFill();
  }

  // ── Fetching ────────────────────────────────────────────────────────────────────────────────────────────

  /** After all promise callbacks of this turn: handlers that end together are refilled by one claim. */
  #askFill(): void {
    if (this.#fillAsked) return;
    this.#fillAsked = true;
    process.nextTick(() => {
      this.#fillAsked = false;
      this.#fill();
    });
  }

  #fill(): void {
    if (this.#phase !== "working") return;
    this.#startAhead();
    const room = this.#room();
    if (room <= 0) return;
    const part = this.#part();
    if (this.#fetching === 0) void this.#fetch(Math.min(room, part), LIMITS.workerWaitMs);
    else if (this.#mayFetchBeside && room >= part) void this.#fetch(part, 0);
  }

  /** What another claim is about to bring looks like what was lost: while we are unsure there is but one. */
  get #mayFetchBeside(): boolean {
    return this.#fetching === 1 && this.#isPlenty && !this.#justFetched && !this.#isUnsure;
  }

  /**
   * What one claim asks for. While there is plenty two are under way, each for half: the store looks for the one half
   * while the other is handled, and neither waits for the other.
   */
  #part(): number {
    const { concurrency, prefetch, batch } = this.#options;
    if (batch !== null) return batch;
    const all = Math.min(concurrency + prefetch, LIMITS.claimBatch);
    return this.#isPlenty && all >= WORTH_HALVING ? Math.ceil(all / 2) : all;
  }

  #startAhead(): void {
    if (this.#ahead.length === 0) return;
    const now = this.#now();
    while (this.#taken < this.#options.concurrency && this.#ahead.length > 0)
      this.#work([this.#ahead.shift()!], now);
  }

  #now(): number {
    return this.#port.clock.read().awake;
  }

  #room(): number {
    const { concurrency, prefetch, batch } = this.#options;
    if (batch !== null) return this.#taken < concurrency && this.#fetching === 0 ? batch : 0;
    const free = concurrency + prefetch - this.#taken - this.#ahead.length - this.#expected;
    return Math.min(free, LIMITS.claimBatch);
  }

  get #taken(): number {
    return this.#busy + this.#repeating;
  }

  async #fetch(max: number, wait: number): Promise<void> {
    this.#fetching++;
    this.#expected += max;
    // Two claims in one batch would come back together, and be in step from then on: the next one waits for its own.
    this.#justFetched = true;
    setImmediate(() => {
      this.#justFetched = false;
      this.#askFill();
    });
    const { session } = this.#membership;
    try {
      if (this.#isUnsure) await this.#reconcile();
      const { tasks, policies } = await this.#port.claim({
        queues: this.#queuesInOrder(),
        max,
        worker: this.id,
        session,
        share: this.#options.order === "fair" ? Math.ceil(max / this.queues.length) : undefined,
        wait,
        signal: this.#stopFetching.signal,
      });
      this.#isPlenty = tasks.length === max;
      const claimedAt = this.#now();
      const fetched = tasks.map((claimed): Held => {
        const held: Held = {
          claimed,
          policy: policies[claimed.queue]!,
          session,
          claimedAt,
          deadline: Number.POSITIVE_INFINITY,
          task: null,
          fate: "working",
          letGo: null,
        };
        this.#held.set(claimed.fence, held);
        return held;
      });
      // Under way when the worker was stopped: nobody will start them.
      if (this.#phase !== "working") for (const held of fetched) this.#track(this.#giveBack(held), held);
      else if (this.#options.batch === null) this.#ahead.push(...fetched);
      else if (fetched.length > 0) this.#work(fetched, claimedAt);
    } catch (error) {
      await this.#afterFailedFetch(error, session);
    } finally {
      this.#fetching--;
      this.#expected -= max;
    }
    this.#askFill();
  }

  /** A claim's answer was lost: what it brought would stay with us, and nobody would work on it. */
  async #reconcile(): Promise<void> {
    await this.#port.reconcile(this.#membership.session!, [...this.#held.keys()]);
    this.#isUnsure = false;
  }

  /** Fair: each queue is the first to be asked in turn. */
  #queuesInOrder(): string[] {
    if (this.#options.order === "strict" || this.queues.length === 1) return [...this.queues];
    const start = this.#turn++ % this.queues.length;
    return [...this.queues.slice(start), ...this.queues.slice(0, start)];
  }

  async #afterFailedFetch(error: unknown, session: number | undefined): Promise<void> {
    if (this.#stopFetching.signal.aborted) return;
    if (isDibsError(error) && error.code === "CLAIM_LOST") {
      // Two claims may learn that the session is gone; one of them joins anew.
      return this.#membership.session === session ? this.#rejoin() : undefined;
    }
    if (isDibsError(error) && error.code === "OUTCOME_UNKNOWN") this.#isUnsure = true;
    if (isDibsError(error) && !error.retryable) {
      if (error.code !== "CLOSED") this.#logger.error(`Worker ${this.id} stops: ${error.message}`);
      return void this.stop();
    }
    this.#logger.warn(`Worker ${this.id} could not claim, trying again: ${(error as Error).message}`);
    await pause(this.#port.clock, TROUBLE_PAUSE_MS, this.#stopFetching.signal);
  }

  // ── What the store tells ────────────────────────────────────────────────────────────────────────────────

  #hear(notice: ClaimNotice, session: number): void {
    if (notice.kind === "gone") {
      for (const held of this.#held.values()) if (held.session === session) this.#lose(held);
      // A refused claim may have told so before, and another session has begun: what that holds is not lost.
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
    suffer(held, "lost", reason);
  }

  #cancel(held: Held): void {
    suffer(held, "cancelled", new DibsError("TASK_CANCELLED", `Task ${held.claimed.id} was cancelled.`));
    if (held.task) return;
    this.#drop(held);
    this.#track(this.#giveBack(held), held);
  }

  /** Out of our hands, if it was fetched ahead. */
  #drop(held: Held): void {
    const index = this.#ahead.indexOf(held);
    if (index >= 0) {
      this.#ahead.splice(index, 1);
      this.#held.delete(held.claimed.fence);
    }
  }

  async #rejoin(): Promise<void> {
    if (this.#phase !== "working") return;
    try {
      await this.#membership.join();
    } catch (error) {
      if (this.#phase !== "working") return;
      this.#logger.error(`Worker ${this.id} stops, for it cannot join again: ${(error as Error).message}`);
      return void this.stop();
    }
    this.#askFill();
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
    held.task = new Task(this.#port, claimed, encodeResult, nextCost);
    held.task.onExtended = (lease) => {
      const extendedAt = this.#now();
      this.#deadlines.set(held, extendedAt + lease, extendedAt);
    };
    // The engine counts the timeout from the claim; a task that lay here for long gets its time back.
    const lay = now - held.claimedAt;
    if (lay > policy.timeout / 10) this.#port.extend(claimed, policy.timeout).catch(() => {});
    this.#deadlines.set(held, now + policy.timeout, now);
  }

  #answered(job: Held[], tasks: Task[], answer: Answer): void {
    // The slot is free now; the settlements share a commit with the next claim.
    this.#busy--;
    if (this.#options.batch === null) {
      this.#finish(job[0]!, answer);
    } else {
      const answers = answersOfBatch(answer, tasks);
      for (const [index, held] of job.entries()) this.#finish(held, answers[index]!);
    }
    this.#askFill();
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
      if (!isTrouble) this.#askFill();
    },
  };

  /** Where `work` is over, or what is done about its failure, the task is out of our hands. */
  #track(work: Promise<void>, held: Held, otherwise?: (reason: unknown) => Promise<void>): void {
    this.#settling++;
    const over = (): void => {
      this.#held.delete(held.claimed.fence);
      this.#settling--;
      if (this.#held.size === 0 && this.#settling === 0) this.#onDrained?.();
    };
    void work.then(over, otherwise && ((reason: unknown) => otherwise(reason).then(over)));
  }

  // ── Stopping ────────────────────────────────────────────────────────────────────────────────────────────

  async #drain(timeout: number): Promise<void> {
    this.#phase = "draining";
    const letGo = this.#keepAlive.hold();
    this.#stopFetching.abort(new DibsError("CLOSED", "The worker was stopped."));
    await this.ready.catch(() => {});
    // First of all: what goes back must not be kept for us again.
    if (this.#held.size > 0) this.#membership.retire();
    for (const held of this.#ahead.splice(0)) this.#track(this.#giveBack(held), held);
    const stopAborting = this.#port.clock.after(abortAfter(timeout), () => this.#askToStop());
    await this.#drained(timeout);
    stopAborting();
    this.#deadlines.stop();
    for (const held of this.#held.values()) this.#leaveBehind(held);
    await this.#membership.leave();
    this.#phase = "stopped";
    letGo();
  }

  /** What was fetched ahead and not started goes back as if never claimed. */
  async #giveBack(held: Held): Promise<void> {
    this.#held.delete(held.claimed.fence);
    await this.#port.settle(held.claimed, { kind: "release", started: false }).catch(() => {});
  }

  #askToStop(): void {
    for (const held of this.#held.values())
      suffer(held, "stopped", new DibsError("CLOSED", "The worker is stopping."));
  }

  /** Its handler did not end in time. Leaving gives the task back; what the handler says later is void. */
  #leaveBehind(held: Held): void {
    suffer(held, "lost", claimLost(held.claimed.id, held.claimed.fence));
  }

  #drained(timeout: number): Promise<void> {
    if (this.#held.size === 0 && this.#settling === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timers = [this.#port.clock.after(timeout, resolve)];
      this.#hurry = (sooner) => {
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

/** Whoever notices first, this worker's timer or the store's heartbeat: the handler is told the same. */
function outOfTime({ claimed, policy }: Held): DibsError {
  return new DibsError(
    "TIMEOUT",
    `Task ${claimed.id} took longer than its queue's timeout of ${policy.timeout} ms.`,
  );
}

refuseSurplus(Worker, "worker", { promises: { stop: "options" } });
