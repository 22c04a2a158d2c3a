import { refuseSurplus } from "../core/input/arguments.ts";
import { DibsError } from "../core/errors/errors.ts";
import { KeepAlive } from "../core/process/keep-alive.ts";
import type { Logger } from "../core/process/logger.ts";
import type { ClaimNotice } from "../core/task/claim-call.ts";
import type { Port } from "../core/port.ts";
import { Ahead } from "./ahead.ts";
import { Claimer } from "./claimer.ts";
import { Drain } from "./drain.ts";
import type { FailureLog } from "./failure-log.ts";
import { type Held, outOfTime, setFate } from "./held.ts";
import { HeldTasks } from "./held-tasks.ts";
import { Membership } from "./membership.ts";
import { Observer } from "./observer.ts";
import { type ResolvedWork, resolveStop, type StopOptions } from "./options.ts";
import { LONGEST_MS, Prefetch } from "./prefetch.ts";
import { Runner, type WorkerQueue } from "./runner.ts";
import type { BatchHandler, Handler } from "./task.ts";

/**
 * The worker that `queue.work()` starts. It puts the parts of a worker together, joins, passes on what the store tells
 * about its claims, and stops. claimer.ts claims tasks, held-tasks.ts keeps them, runner.ts calls the handler, and
 * drain.ts waits for the handlers when the worker stops.
 */

/**
 * Claims tasks and calls a handler on them.
 *
 *   starting ──joined──▶ working ──stop()──▶ draining ──▶ stopped
 *                          ▲  │
 *                          └──┘ session gone: its claims are lost, and it joins again
 */
type Phase = "starting" | "working" | "draining" | "stopped";

export class Worker implements AsyncDisposable {
  /** The instance; `name` is its label. */
  readonly id: string;
  readonly name: string;
  readonly queues: readonly string[];
  /** Resolves when the worker has joined and claims tasks. */
  readonly ready: Promise<void>;
  /** Resolves when the worker has stopped: after stop(), or by itself after `limit` tasks. */
  readonly stopped: Promise<void>;

  readonly #logger: Logger;
  readonly #onStopped: () => void;
  readonly #held: HeldTasks;
  readonly #runner: Runner;
  readonly #claimer: Claimer;
  readonly #drain: Drain;
  readonly #membership: Membership;
  readonly #keepAlive = new KeepAlive();
  /** A worker keeps its process alive, also while it only waits for a handler. */
  readonly #letProcessEnd: () => void;
  readonly #stopClaiming = new AbortController();
  readonly #resolveStopped: () => void;
  #phase: Phase = "starting";
  #stopping: Promise<void> | undefined;

  constructor(
    port: Port,
    queues: WorkerQueue[],
    handler: Handler<never> | BatchHandler<never>,
    options: ResolvedWork,
    logger: Logger,
    failures: FailureLog,
    onStopped: () => void,
  ) {
    this.#logger = logger;
    this.#onStopped = onStopped;
    this.id = options.id;
    this.name = options.name;
    this.queues = queues.map((queue) => queue.name);
    const stopped = this.#stopClaiming.signal;
    const observer = new Observer(port, options.hooks, options.isLogging ? failures : undefined, logger);
    const prefetch = new Prefetch(options.prefetch, options.concurrency);
    const longestAhead = prefetch.isAuto ? LONGEST_MS : Number.POSITIVE_INFINITY;
    const ahead = new Ahead(port.clock, longestAhead, () => this.#claimer.giveBackOverdue());
    const held = new HeldTasks(port, ahead, observer, options.limit, {
      onRoom: () => this.#claimer.scheduleFill(),
      onNoneLeft: () => this.#onNoneLeft(),
    });
    const membership = new Membership(
      port,
      { id: this.id, name: this.name, queues: this.queues, concurrency: options.concurrency },
      (notice, session) => this.#onNotice(notice, session),
      logger,
      stopped,
    );
    const runner = new Runner({
      port,
      queues: new Map(queues.map((queue) => [queue.name, queue])),
      handler,
      options,
      held,
      prefetch,
      observer,
      logger,
      onFree: () => this.#claimer.scheduleFill(),
    });
    this.#claimer = new Claimer({
      port,
      queues: this.queues,
      options,
      membership,
      held,
      prefetch,
      runner,
      logger,
      stopped,
      rejoin: () => this.#rejoin(),
      stop: () => void this.stop(),
    });
    this.#held = held;
    this.#membership = membership;
    this.#runner = runner;
    this.#drain = new Drain(port.clock, held);
    this.#letProcessEnd = this.#keepAlive.hold();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.stopped = promise;
    this.#resolveStopped = resolve;
    this.ready = this.#start(queues);
    // If the caller does not await it, the log reports a failed start.
    this.ready.catch((error: unknown) => {
      this.#letProcessEnd();
      if (this.#phase === "starting")
        logger.error(`Worker ${this.id} could not start: ${(error as Error).message}`);
    });
  }

  /** Tasks in their handlers. */
  get active(): number {
    return this.#held.active;
  }

  /** Claims no more tasks, lets handlers finish, and releases the rest without counting an attempt. */
  stop(options: StopOptions = {}): Promise<void> {
    // A second call may shorten the timeout.
    this.#drain.within(resolveStop(options));
    this.#stopping ??= this.#stop().finally(() => {
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

  async #start(queues: WorkerQueue[]): Promise<void> {
    await this.#membership.join(() => Promise.all(queues.map((queue) => queue.declare())));
    if (this.#phase !== "starting") return;
    this.#phase = "working";
    this.#claimer.scheduleFill();
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
    this.#claimer.scheduleFill();
  }

  // ── Notices from the store ─────────────────────────────────────────────────────────────────────────────

  #onNotice(notice: ClaimNotice, session: number): void {
    if (notice.kind === "gone") {
      for (const held of this.#held.all()) if (held.session === session) this.#held.lose(held);
      // A refused claim may have reported this already. Then a new session has begun, and its claims are not lost.
      if (session === this.#membership.session) void this.#rejoin();
      return;
    }
    const held = this.#held.get(notice.fence);
    if (!held) return;
    if (notice.kind === "cancel") this.#cancel(held);
    else this.#held.lose(held, notice.kind === "timeout" ? outOfTime(held) : undefined);
  }

  #cancel(held: Held): void {
    setFate(held, "cancelled", new DibsError("TASK_CANCELLED", `Task ${held.claimed.id} was cancelled.`));
    // A prefetched task has no handler that ends it, so release it: that ends it cancelled.
    if (this.#held.ahead.remove(held)) this.#held.giveBack([held]);
  }

  // ── Stopping ────────────────────────────────────────────────────────────────────────────────────────────

  #onNoneLeft(): void {
    this.#drain.noteNoneLeft();
    if (this.#held.left <= 0) void this.stop();
  }

  async #stop(): Promise<void> {
    this.#phase = "draining";
    const letProcessEnd = this.#keepAlive.hold();
    this.#stopClaiming.abort(new DibsError("CLOSED", "The worker was stopped."));
    await this.ready.catch(() => {});
    // Retire first: released tasks must not be reserved for this worker again.
    if (!this.#held.isEmpty) this.#membership.retire();
    this.#held.ahead.stop();
    this.#held.giveBack(this.#held.ahead.takeAfter(0));
    await this.#drain.wait();
    this.#runner.stop();
    this.#drain.leaveBehind();
    await this.#membership.leave();
    this.#phase = "stopped";
    letProcessEnd();
  }
}

refuseSurplus(Worker, "worker", { promises: { stop: "options" } });
