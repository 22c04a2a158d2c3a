import { EXPIRED_HEADERS } from "../../core/queue/expired-to.ts";
import { LIMITS } from "../../core/input/limits.ts";
import { UNLIMITED_ATTEMPTS } from "../../core/queue/policy.ts";
import type { ClaimedTask } from "../../core/task/task.ts";
import { deadLetter } from "./dead-letters.ts";
import type { AmqpDoor } from "./door.ts";
import { DEAD_LETTERS, queueOf } from "./names.ts";
import type { QueueRecord } from "./topology.ts";

/** Messages that are routed at once. */
const MOST_CLAIMED = 100;
const RETRY_MS = 500;

/**
 * Routes what expired, or did not fit, in queues with a dead-letter exchange. The store has moved these tasks to one
 * queue (`expiredTo`); this worker sends each on to the queues that its exchange leads to, in the commit that ends its
 * claim. Every server of the store does that, once there is such a queue.
 */
export class DeadLetterRouter {
  readonly #door: AmqpDoor;
  readonly #stop = new AbortController();
  #session: number | undefined;
  #running: Promise<void> | undefined;

  constructor(door: AmqpDoor) {
    this.#door = door;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Resolves when its worker has left the store. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error("the server stops"));
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.#routeNext(signal);
      } catch (error) {
        if (signal.aborted) break;
        this.#session = undefined;
        this.#door.logger.warn(`AMQP's dead letters wait: ${(error as Error).message}`);
        await new Promise<void>((resolve) => setTimeout(resolve, RETRY_MS).unref());
      }
    }
    if (this.#session !== undefined) await this.#door.leave(this.#session);
  }

  async #routeNext(signal: AbortSignal): Promise<void> {
    const { port, topology } = this.#door;
    const worker = this.#door.workerFor(DEAD_LETTERS);
    if (this.#session === undefined) {
      const backoff = { type: "fixed", delay: RETRY_MS, max: RETRY_MS, jitter: 0 } as const;
      await port.declare(DEAD_LETTERS, { maxAttempts: UNLIMITED_ATTEMPTS, backoff }, { create: true });
      this.#session = await this.#door.join(worker, ({ kind }) => {
        if (kind === "gone") this.#session = undefined;
      });
    }
    const call = { queues: [DEAD_LETTERS], max: MOST_CLAIMED, worker: worker.id, session: this.#session };
    const { tasks } = await port.claim({ ...call, signal, wait: LIMITS.workerWaitMs });
    if (tasks.length === 0) return;
    await topology.fresh();
    const origins = new Map(
      [...topology.queues()].map((record) => [queueOf(record.vhost, record.name), record]),
    );
    await Promise.all(tasks.map((task) => this.#route(task, origins)));
  }

  async #route(task: ClaimedTask, origins: ReadonlyMap<string, QueueRecord>): Promise<void> {
    const { [EXPIRED_HEADERS.from]: from = "", [EXPIRED_HEADERS.why]: why, ...headers } = task.headers;
    const origin = origins.get(from);
    const reason = why === "dropped" ? "maxlen" : "expired";
    const dropped = { kind: "ack", result: null } as const;
    const call =
      (origin && deadLetter(this.#door, origin.vhost, origin.name, { ...task, headers }, reason)) ?? dropped;
    const { port } = this.#door;
    await port.settle(task, call).catch((error: unknown) => {
      const { code } = error as { code?: string };
      if (code === "CLAIM_LOST") return undefined;
      // A queue that refuses what does not fit refuses dead letters, too.
      if (code === "QUEUE_FULL") return port.settle(task, dropped);
      throw error;
    });
  }
}
