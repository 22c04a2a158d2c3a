import { LIMITS } from "../../core/limits.ts";
import type { Logger } from "../../core/logger.ts";
import type { ClaimNotice, SettleCall } from "../../core/claim-call.ts";
import type { Port } from "../../core/port.ts";
import type { ClaimedTask, WorkerInfo } from "../../core/task.ts";

/** What a feeder gives its tasks to. */
export interface Consumer {
  readonly priority: number;
  /** Of its queue, only the first consumer gets tasks; the next one takes over when it leaves. */
  readonly isSingleActive: boolean;
  /** How many more tasks it takes now. */
  readonly room: number;
  deliver(task: ClaimedTask): void;
  /** The claim of a task that it holds has ended: its time is up, or the store gave it to another worker. */
  lost(fence: number, isTimeout: boolean): void;
  /** The queue is gone. */
  cancelled(): void;
}

/** Most tasks that one claim asks for, and that wait here for a consumer. */
const MOST_CLAIMED = 500;
/** A consumer that acknowledges within this time gets its next tasks claimed ahead; in milliseconds. */
const QUICK_MS = 25;
/** Tasks that were claimed ahead and found no free consumer for this long are given back. */
const GIVE_BACK_MS = 50;
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
 * One session per queue holds the claims, so that a consumer's claims can be given to another one, and so that tasks can
 * be claimed before a consumer is free: at a prefetch of one, a fast consumer then does not wait for a commit per task.
 *
 *   claim ──▶ buffer ──▶ the free consumer that has waited longest, of the highest priority
 *                └── no consumer is free for a while: given back to the store
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
  #claiming: AbortController | undefined;
  #ahead = 0;
  #isPumpScheduled = false;
  #isStopped = false;
  /** Calls of the store that are under way for a task: its claim by basic.get, or its settlement. */
  #underWay = 0;
  #onSettled: () => void = () => {};
  #giveBackTimer: NodeJS.Timeout | undefined;

  constructor(options: FeederOptions) {
    this.#options = options;
    this.queue = options.queue;
  }

  get consumers(): readonly Consumer[] {
    return this.#consumers;
  }

  /** Tasks that are claimed, and not with a consumer yet. */
  get buffered(): number {
    return this.#buffer.length;
  }

  /** Clients have tasks that they have not acknowledged. */
  get isHolding(): boolean {
    return this.#held.size > 0;
  }

  /** Calls `fn` whenever a claim was settled. */
  onSettled(fn: () => void): void {
    this.#onSettled = fn;
  }

  /** Nothing would be lost by leaving the store, which releases all claims. */
  get isIdle(): boolean {
    const claimed = this.#held.size + this.#buffer.length + this.#underWay;
    return this.#consumers.length === 0 && claimed === 0;
  }

  add(consumer: Consumer): void {
    const behind = this.#consumers.findIndex((each) => each.priority < consumer.priority);
    if (behind < 0) this.#consumers.push(consumer);
    else this.#consumers.splice(behind, 0, consumer);
    this.pump();
  }

  /** It gets no more tasks. What it holds stays with its channel. */
  remove(consumer: Consumer): void {
    this.#consumers = this.#consumers.filter((each) => each !== consumer);
    if (this.#consumers.length === 0) {
      this.#claiming?.abort(new Error("no consumer is left"));
      this.#giveBack();
    } else this.pump();
  }

  /** Acknowledgements of one moment lead to one claim, for as many tasks as all of them made room for. */
  pumpSoon(): void {
    if (this.#isPumpScheduled) return;
    this.#isPumpScheduled = true;
    // Before the batch of these acknowledgements is sent to the store: the claim is part of it.
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
    for (const consumer of consumers) if ((room += Math.max(0, consumer.room)) >= MOST_CLAIMED) break;
    const isCongested = consumers.every((consumer) => consumer.room < 0);
    const wanted = room + (isCongested ? 0 : this.#ahead) - this.#buffer.length;
    // A full round trip for a few tasks ahead would only disturb: they are claimed when half of them are gone.
    if (wanted <= 0 || (room === 0 && wanted * 2 < this.#ahead)) return;
    void this.#claim(Math.min(wanted, MOST_CLAIMED));
  }

  async #claim(max: number): Promise<void> {
    const stop = new AbortController();
    this.#claiming = stop;
    try {
      const session = await this.#join();
      stop.signal.throwIfAborted();
      const { port, worker, queue } = this.#options;
      const call = { queues: [queue], max, worker: worker.id, session, signal: stop.signal };
      const { tasks } = await port.claim({ ...call, wait: LIMITS.workerWaitMs });
      this.#buffer.push(...tasks);
    } catch (error) {
      if (!stop.signal.aborted) await this.#recover(error);
    } finally {
      this.#claiming = undefined;
    }
    if (this.#consumers.length === 0) this.#giveBack();
    this.pump();
  }

  async #join(): Promise<number> {
    this.#session ??= this.#options.join((notice) => this.#onNotice(notice));
    return this.#session;
  }

  /** A session that was lost is joined again. Other failures are those of the store: retried after a while. */
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

  /** One task at once, for basic.get. */
  async get(): Promise<ClaimedTask | undefined> {
    this.#underWay++;
    try {
      const task = this.#buffer.shift() ?? (await this.#getOne());
      if (!task) return undefined;
      this.#held.set(task.fence, { task, consumer: undefined, at: performance.now() });
      return task;
    } finally {
      this.#underWay--;
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

  /** Ends a claim. Not async: that would cost a promise for each message. */
  settle(fence: number, call: SettleCall): Promise<unknown> {
    const held = this.#held.get(fence);
    if (!held) return NOTHING_HELD;
    this.#held.delete(fence);
    const isQuick = call.kind === "ack" && performance.now() - held.at < QUICK_MS;
    if (isQuick && this.#buffer.length === 0)
      this.#ahead = Math.min(MOST_CLAIMED, Math.max(8, this.#ahead * 2));
    this.#underWay++;
    const settling = this.#options.port.settle(held.task, call);
    settling.then(this.#settled, this.#settled);
    return settling;
  }

  readonly #settled = (): void => {
    this.#underWay--;
    this.#onSettled();
  };

  taskOf(fence: number): ClaimedTask | undefined {
    return this.#held.get(fence)?.task;
  }

  /** If it comes back once more, the queue gives it up. */
  isLastAttempt(fence: number): boolean {
    const task = this.#held.get(fence)?.task;
    return task !== undefined && task.attempt >= task.maxAttempts;
  }

  /** Puts a task back, as a failed attempt: the queue's policy says when it may start again, and how often. */
  async giveBack(fence: number, reason: "requeued" | "lost"): Promise<void> {
    if (!this.#held.has(fence)) return;
    // What was claimed behind it returns too, so that it is the next one again.
    this.#giveBack();
    await this.settle(fence, this.returnCall(reason));
  }

  returnCall(reason: "requeued" | "lost"): SettleCall {
    const error = reason === "lost" ? CONNECTION_LOST : REQUEUED;
    return reason === "lost" ? { kind: "nack", error, delay: 0 } : { kind: "nack", error };
  }

  /** Before a purge: what waits here is not in the queue. */
  giveBackBuffer(): void {
    this.#giveBack();
  }

  /** Returns what no consumer has seen, as if it had never been claimed. */
  #giveBack(): void {
    clearTimeout(this.#giveBackTimer);
    this.#giveBackTimer = undefined;
    this.#ahead = 0;
    for (const task of this.#buffer.splice(0))
      this.#options.port.settle(task, { kind: "release", started: false }).catch(() => {});
  }

  #watchBuffer(): void {
    const [first] = this.#buffer;
    if (!first) {
      clearTimeout(this.#giveBackTimer);
      this.#giveBackTimer = undefined;
      return;
    }
    if (this.#giveBackTimer) return;
    this.#giveBackTimer = setTimeout(() => {
      this.#giveBackTimer = undefined;
      if (this.#buffer[0] === first) this.#giveBack();
      else this.#watchBuffer();
    }, GIVE_BACK_MS);
    this.#giveBackTimer.unref();
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

  /** Hands out nothing more. */
  stop(): void {
    this.#isStopped = true;
    this.#claiming?.abort(new Error("the server stops"));
    this.#giveBack();
  }

  /** Leaves the store; claims that are still held are released. */
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
