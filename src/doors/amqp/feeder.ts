import { LIMITS } from "../../core/input/limits.ts";
import type { Logger } from "../../core/process/logger.ts";
import type { ClaimNotice, SettleCall } from "../../core/task/claim-call.ts";
import type { Port } from "../../core/port.ts";
import type { ClaimedTask, WorkerInfo } from "../../core/task/task.ts";

/** Gets tasks from a feeder. */
export interface Consumer {
  readonly priority: number;
  /** Only the first consumer of its queue gets tasks; when that one leaves, the next one does. */
  readonly isSingleActive: boolean;
  /** How many more tasks it takes now. */
  readonly room: number;
  deliver(task: ClaimedTask): void;
  /** The claim of a task that it holds has ended: after its timeout, or because another worker has the task. */
  lost(fence: number, isTimeout: boolean): void;
  /** The queue is gone. */
  cancelled(): void;
}

/** The most tasks that one claim requests, and that are claimed before a consumer is free. */
const MAX_CLAIM = 500;
/** If a consumer acknowledges within this time, more tasks are claimed before a consumer is free. */
const QUICK_MS = 25;
/** If no consumer is free for this long, buffered tasks are returned to the store. */
const RELEASE_AFTER_MS = 50;

export interface FeederOptions {
  queue: string;
  port: Port;
  worker: WorkerInfo;
  join: (listener: (notice: ClaimNotice) => void) => Promise<number>;
  leave: (session: number) => Promise<void>;
  logger: Logger;
}

/**
 * Claims the tasks of one queue for all its AMQP consumers on this server, and hands them out in the order of the store.
 * One session per queue holds the claims. So tasks can be claimed before it is known which consumer gets them: at a
 * prefetch of one, a fast consumer does not wait for a commit per task.
 *
 *   claim ──▶ buffer ──▶ the free consumer that has waited longest, of the highest priority
 *                └── no consumer is free for 50 ms: returned to the store
 */
export class Feeder {
  readonly queue: string;
  readonly #options: FeederOptions;
  /** By priority, then by how long they have waited. */
  #consumers: Consumer[] = [];
  #buffer: ClaimedTask[] = [];
  /** By fence. */
  readonly #held = new Map<number, { task: ClaimedTask; consumer: Consumer | undefined; at: number }>();
  #session: Promise<number> | undefined;
  /** Set while a claim is in progress. */
  #claiming: AbortController | undefined;
  /** How many tasks came back. */
  #returned = 0;
  /** How many tasks to claim beyond the room of the consumers. */
  #ahead = 0;
  #isPumpScheduled = false;
  #isStopped = false;
  /** Calls in progress for one task: its claim by basic.get, or its settlement. */
  #inProgress = 0;
  #onSettled: () => void = () => {};
  #releaseTimer: NodeJS.Timeout | undefined;
  constructor(options: FeederOptions) {
    this.#options = options;
    this.queue = options.queue;
  }

  get consumers(): readonly Consumer[] {
    return this.#consumers;
  }

  /** How many tasks are claimed and wait for a consumer. */
  get buffered(): number {
    return this.#buffer.length;
  }

  /** Whether clients have tasks that they have not acknowledged. */
  get isHolding(): boolean {
    return this.#held.size > 0;
  }

  /** Calls `fn` whenever a claim was settled. */
  onSettled(fn: () => void): void {
    this.#onSettled = fn;
  }

  /** Whether it has no consumers and no claims, so that it can be left, which would release all claims. */
  get isIdle(): boolean {
    const claimed = this.#held.size + this.#buffer.length + this.#inProgress;
    return this.#consumers.length === 0 && claimed === 0;
  }

  add(consumer: Consumer): void {
    const behind = this.#consumers.findIndex((each) => each.priority < consumer.priority);
    if (behind < 0) this.#consumers.push(consumer);
    else this.#consumers.splice(behind, 0, consumer);
    this.pump();
  }

  /** The consumer gets no more tasks. Its channel still holds those that it has. */
  remove(consumer: Consumer): void {
    this.#consumers = this.#consumers.filter((each) => each !== consumer);
    if (this.#consumers.length === 0) {
      this.#claiming?.abort(new Error("no consumer is left"));
      this.releaseBuffer();
    } else this.pump();
  }

  /** Pumps later in this turn of the event loop: acknowledgements that arrive together lead to one claim. */
  pumpSoon(): void {
    if (this.#isPumpScheduled) return;
    this.#isPumpScheduled = true;
    // This is before the batch of these acknowledgements is sent to the store, so the claim is part of it.
    process.nextTick(() => {
      this.#isPumpScheduled = false;
      this.pump();
    });
  }

  /** Something changed: a consumer has room, or tasks have arrived. */
  pump(): void {
    while (this.#buffer.length > 0) {
      const consumer = this.#nextFree();
      if (!consumer) break;
      this.#hand(this.#buffer.shift()!, consumer);
    }
    this.#watchBuffer();
    this.#claimMore();
  }

  #nextFree(): Consumer | undefined {
    const consumers = this.#consumers;
    const count = consumers[0]?.isSingleActive ? 1 : consumers.length;
    for (let index = 0; index < count; index++) {
      const consumer = consumers[index]!;
      if (consumer.room <= 0) continue;
      if (count > 1) this.#moveBehindEquals(index);
      return consumer;
    }
    return undefined;
  }

  /** Round robin among consumers of the same priority. */
  #moveBehindEquals(index: number): void {
    const consumers = this.#consumers;
    const consumer = consumers[index]!;
    let to = index;
    while (to + 1 < consumers.length && consumers[to + 1]!.priority === consumer.priority) {
      consumers[to] = consumers[to + 1]!;
      to++;
    }
    consumers[to] = consumer;
  }

  #hand(task: ClaimedTask, consumer: Consumer): void {
    this.#held.set(task.fence, { task, consumer, at: performance.now() });
    consumer.deliver(task);
  }

  #claimMore(): void {
    if (this.#claiming || this.#isStopped) return;
    const consumers = this.#consumers[0]?.isSingleActive ? this.#consumers.slice(0, 1) : this.#consumers;
    let room = 0;
    for (const consumer of consumers) if ((room += Math.max(0, consumer.room)) >= MAX_CLAIM) break;
    const isCongested = consumers.every((consumer) => consumer.room < 0);
    const wanted = room + (isCongested ? 0 : this.#ahead) - this.#buffer.length;
    // If all consumers are busy, this claims only when half of the tasks claimed ahead are gone: a round trip for fewer
    // tasks costs more than it saves.
    if (wanted <= 0 || (room === 0 && wanted * 2 < this.#ahead)) return;
    void this.#claim(Math.min(wanted, MAX_CLAIM));
  }

  async #claim(max: number): Promise<void> {
    const stop = new AbortController();
    this.#claiming = stop;
    try {
      const session = await this.#join();
      stop.signal.throwIfAborted();
      const { port, worker, queue } = this.#options;
      const call = { queues: [queue], max, worker: worker.id, session, signal: stop.signal };
      const returned = this.#returned;
      const { tasks } = await port.claim({ ...call, wait: LIMITS.workerWaitMs });
      this.#buffer.push(...tasks);
      // A single active consumer gets all tasks in order: one that came back during the claim may belong before these.
      if (this.#consumers[0]?.isSingleActive && returned !== this.#returned) this.releaseBuffer();
    } catch (error) {
      if (!stop.signal.aborted) await this.#recover(error);
    } finally {
      this.#claiming = undefined;
    }
    if (this.#consumers.length === 0) this.releaseBuffer();
    this.pump();
  }

  async #join(): Promise<number> {
    this.#session ??= this.#options.join((notice) => this.#onNotice(notice));
    return this.#session;
  }

  /** After a failed claim: the next one joins a new session. Waits for half a second, because the store may be down. */
  async #recover(error: unknown): Promise<void> {
    const { logger } = this.#options;
    this.#session = undefined;
    if (this.#isStopped) return;
    logger.warn(`AMQP consumers of queue ${this.queue} wait: ${(error as Error).message}`);
    await new Promise<void>((resolve) => setTimeout(resolve, 500).unref());
  }

  #onNotice(notice: ClaimNotice): void {
    if (notice.kind === "cancel") return;
    if (notice.kind === "gone") {
      this.#session = undefined;
      this.#buffer = [];
      for (const fence of [...this.#held.keys()]) this.#lose(fence, false);
      return;
    }
    this.#buffer = this.#buffer.filter(({ fence }) => fence !== notice.fence);
    this.#lose(notice.fence, notice.kind === "timeout");
  }

  #lose(fence: number, isTimeout: boolean): void {
    const held = this.#held.get(fence);
    if (!held) return;
    this.#held.delete(fence);
    held.consumer?.lost(fence, isTimeout);
  }

  /** Returns one task if there is one, for basic.get. */
  async get(): Promise<ClaimedTask | undefined> {
    this.#inProgress++;
    try {
      const task = this.#buffer.shift() ?? (await this.#getOne());
      if (!task) return undefined;
      this.#held.set(task.fence, { task, consumer: undefined, at: performance.now() });
      return task;
    } finally {
      this.#inProgress--;
    }
  }

  async #getOne(): Promise<ClaimedTask | undefined> {
    const { port, worker, queue } = this.#options;
    const session = await this.#join();
    const { tasks } = await port.claim({
      queues: [queue],
      max: 1,
      worker: worker.id,
      session,
      wait: 0,
    });
    return tasks[0];
  }

  /** Settles a task. Not async, because that would cost a promise for each message. */
  settle(fence: number, call: SettleCall): Promise<unknown> {
    const held = this.#held.get(fence);
    if (!held) return NOTHING_HELD;
    this.#held.delete(fence);
    const isQuick = call.kind === "ack" && performance.now() - held.at < QUICK_MS;
    if (isQuick && this.#buffer.length === 0) this.#ahead = Math.min(MAX_CLAIM, Math.max(8, this.#ahead * 2));
    this.#inProgress++;
    const settling = this.#options.port.settle(held.task, call);
    settling.then(this.#settled, this.#settled);
    return settling;
  }

  readonly #settled = (): void => {
    this.#inProgress--;
    this.#onSettled();
  };

  taskOf(fence: number): ClaimedTask | undefined {
    return this.#held.get(fence)?.task;
  }

  /** Whether the task becomes a dead letter if this attempt fails. */
  isLastAttempt(fence: number): boolean {
    const task = this.#held.get(fence)?.task;
    return task !== undefined && task.attempt >= task.maxAttempts;
  }

  /** Returns a task as a failed attempt. The queue's policy says when, how often and where it is tried again. */
  async returnTask(fence: number, reason: "requeued" | "lost"): Promise<void> {
    if (!this.#held.has(fence)) return;
    // The tasks that were claimed after it are returned too, so that this one is the next one again.
    this.#returned++;
    this.releaseBuffer();
    await this.settle(fence, this.returnCall(reason));
  }

  returnCall(reason: "requeued" | "lost"): SettleCall {
    const error = reason === "lost" ? CONNECTION_LOST : REQUEUED;
    return reason === "lost" ? { kind: "nack", error, delay: 0 } : { kind: "nack", error };
  }

  /** Returns the buffered tasks, as if they had never been claimed. Called before a purge, which removes ready tasks. */
  releaseBuffer(): void {
    clearTimeout(this.#releaseTimer);
    this.#releaseTimer = undefined;
    this.#ahead = 0;
    for (const task of this.#buffer.splice(0))
      this.#options.port.settle(task, { kind: "release", started: false }).catch(() => {});
  }

  /** Releases the buffer if its first task stays there for RELEASE_AFTER_MS. */
  #watchBuffer(): void {
    const [first] = this.#buffer;
    if (!first) {
      clearTimeout(this.#releaseTimer);
      this.#releaseTimer = undefined;
      return;
    }
    if (this.#releaseTimer) return;
    this.#releaseTimer = setTimeout(() => {
      this.#releaseTimer = undefined;
      if (this.#buffer[0] === first) this.releaseBuffer();
      else this.#watchBuffer();
    }, RELEASE_AFTER_MS);
    this.#releaseTimer.unref();
  }

  /** The queue was deleted. */
  cancelAll(): void {
    const consumers = this.#consumers;
    this.#consumers = [];
    this.#buffer = [];
    this.#held.clear();
    this.#claiming?.abort(new Error("the queue was deleted"));
    for (const consumer of consumers) consumer.cancelled();
  }

  /** Delivers nothing more. */
  stop(): void {
    this.#isStopped = true;
    this.#claiming?.abort(new Error("the server stops"));
    this.releaseBuffer();
  }

  /** Ends the session. The store releases the claims that it still holds. */
  async leave(): Promise<void> {
    this.stop();
    const session = await this.#session?.catch(() => undefined);
    this.#session = undefined;
    if (session !== undefined) await this.#options.leave(session);
  }
}

const NOTHING_HELD = Promise.resolve();
const CONNECTION_LOST = {
  name: "ConnectionLost",
  message: "The consumer's connection or channel ended before it acknowledged the message.",
  stack: null,
};
const REQUEUED = {
  name: "Requeued",
  message: "The consumer returned the message with basic.nack or basic.reject.",
  stack: null,
};
