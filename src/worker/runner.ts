import type { Clock } from "../core/time/clock.ts";
import type { Logger } from "../core/process/logger.ts";
import type { Port } from "../core/port.ts";
import type { EncodeResult, NextCost } from "./claim.ts";
import { Deadlines } from "./deadlines.ts";
import { type Answer, ackAtOnce, answersOfBatch, runHandler, settle } from "./handle.ts";
import { type Held, outOfTime, setFate } from "./held.ts";
import type { HeldTasks } from "./held-tasks.ts";
import type { Observer } from "./observer.ts";
import type { ResolvedWork } from "./options.ts";
import type { Prefetch } from "./prefetch.ts";
import { type BatchHandler, type Handler, Task } from "./task.ts";

/**
 * The slots of one worker: calls the handler with a task (or with a batch), ends it after its timeout, and settles the
 * task by its answer. claimer.ts starts tasks here, and handle.ts turns an answer into a settlement.
 */

/** What a worker needs from a queue. */
export interface WorkerQueue {
  name: string;
  /** @internal */
  declare(): Promise<void>;
  /** @internal */
  encodeResult: EncodeResult;
  /** @internal Only the queue of a stage has it: the cost of the next stage's task. */
  nextCost?: NextCost | undefined;
}

/** What a runner needs from its worker. */
export interface RunnerParts {
  port: Port;
  queues: ReadonlyMap<string, WorkerQueue>;
  handler: Handler<never> | BatchHandler<never>;
  options: ResolvedWork;
  held: HeldTasks;
  prefetch: Prefetch;
  observer: Observer;
  logger: Logger;
  /** A slot became free. */
  onFree: () => void;
}

export class Runner {
  readonly #parts: RunnerParts;
  // These are read several times for every task, so they are fields.
  readonly #concurrency: number;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;
  /** Handlers in progress. */
  #busy = 0;
  /**
   * Settlements that are being retried, such as an ack whose tasks do not fit into a full queue. Each occupies a slot, so
   * that the worker slows down.
   */
  #retrying = 0;
  #lastEnd = 0;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    this.#concurrency = parts.options.concurrency;
    this.#clock = parts.port.clock;
    this.#deadlines = new Deadlines(
      parts.port.clock,
      () => parts.held.all(),
      (held) => setFate(held, "timedOut", outOfTime(held)),
    );
  }

  get freeSlots(): number {
    return this.#concurrency - this.#busy - this.#retrying;
  }

  /** When the last handler ended. */
  get lastEnd(): number {
    return this.#lastEnd;
  }

  /** Calls the handler with one task or with a batch. */
  start(job: Held[], now: number): void {
    this.#busy++;
    for (const held of job) this.#begin(held, now);
    const tasks = job.map((held) => held.task!);
    runHandler(
      job,
      () => this.#callHandler(tasks),
      (answer) => this.#answered(job, tasks, answer),
    );
  }

  /** Stops the timeouts of the handlers. */
  stop(): void {
    this.#deadlines.stop();
  }

  #begin(held: Held, now: number): void {
    const { port, queues, observer } = this.#parts;
    const { claimed, policy } = held;
    const { encodeResult, nextCost } = queues.get(claimed.queue)!;
    held.startedAt = now;
    held.task = new Task(port, claimed, encodeResult, nextCost);
    held.task.observer = observer;
    observer.claimed(held.task);
    held.task.onExtended = (lease) => {
      const extendedAt = this.#now();
      this.#deadlines.set(held, extendedAt + lease, extendedAt);
    };
    // The engine counts the timeout from the claim. If the task was prefetched long ago, it gets its full time here.
    const waited = now - held.claimedAt;
    if (waited > policy.timeout / 10) port.extend(claimed, policy.timeout).catch(() => {});
    this.#deadlines.set(held, now + policy.timeout, now);
  }

  #callHandler(tasks: Task[]): unknown {
    const { options, handler } = this.#parts;
    if (options.batch === null) return (handler as Handler)(tasks[0] as Task);
    return (handler as BatchHandler)(tasks);
  }

  #answered(job: Held[], tasks: Task[], answer: Answer): void {
    const { options, prefetch, onFree } = this.#parts;
    // The slot is free before the task is settled, so that the settlement shares a commit with the next claim.
    this.#busy--;
    this.#lastEnd = this.#now();
    prefetch.handled(this.#lastEnd - job[0]!.startedAt);
    if (options.batch === null) {
      this.#finish(job[0]!, answer);
    } else {
      const answers = answersOfBatch(answer, tasks);
      for (const [index, held] of job.entries()) this.#finish(held, answers[index]!);
    }
    onFree();
  }

  #finish(held: Held, answer: Answer): void {
    held.deadline = Number.POSITIVE_INFINITY;
    const acked = ackAtOnce(held, answer);
    if (acked) this.#parts.held.settling(held, acked, (error) => this.#settle(held, answer, { error }));
    else this.#parts.held.settling(held, this.#settle(held, answer));
  }

  async #settle(held: Held, answer: Answer, failure?: { error: unknown }): Promise<void> {
    try {
      await settle(this.#settlingContext, held, answer, failure);
    } catch (error) {
      const { logger } = this.#parts;
      logger.error(`Task ${held.claimed.id} could not be settled: ${(error as Error).message}`);
    }
  }

  readonly #settlingContext = {
    now: () => this.#now(),
    pause: (ms: number) => new Promise<void>((resolve) => this.#parts.port.clock.after(ms, resolve)),
    warn: (message: string) => this.#parts.logger.warn(message),
    onTrouble: (isTrouble: boolean) => {
      this.#retrying += isTrouble ? 1 : -1;
      if (!isTrouble) this.#parts.onFree();
    },
  };

  #now(): number {
    return this.#clock.read().awake;
  }
}
