import { hostname } from "node:os";
import type { Clock } from "../core/time/clock.ts";
import { isDibsError } from "../core/errors/errors.ts";
import type { Logger } from "../core/process/logger.ts";
import type { ClaimNotice } from "../core/task/claim-call.ts";
import type { Port } from "../core/port.ts";

// A worker's membership in the store: joins, joins again, leaves. `worker.ts` creates it, `claimer.ts` claims with it.

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
const LEAVE_PATIENCE_MS = 5_000;

export interface Member {
  id: string;
  name: string;
  queues: readonly string[];
  concurrency: number;
}

/**
 * The session of a worker. Joins again when the session is gone, and retries for as long as the store cannot be
 * reached.
 */
export class Membership {
  readonly #port: Port;
  readonly #member: Member;
  readonly #onNotice: (notice: ClaimNotice, session: number) => void;
  readonly #logger: Logger;
  /** Ends all retries. */
  readonly #stopped: AbortSignal;
  #session: number | undefined;
  #joining: Promise<void> | undefined;

  constructor(
    port: Port,
    member: Member,
    onNotice: (notice: ClaimNotice, session: number) => void,
    logger: Logger,
    stopped: AbortSignal,
  ) {
    this.#port = port;
    this.#member = member;
    this.#onNotice = onNotice;
    this.#logger = logger;
    this.#stopped = stopped;
  }

  get session(): number | undefined {
    return this.#session;
  }

  /** Resolves once joined. A call during a join returns that join. */
  join(prepare: () => Promise<unknown> = async () => {}): Promise<void> {
    this.#joining ??= this.#untilReachable(async () => {
      await prepare();
      await this.#joinOnce();
    }).finally(() => (this.#joining = undefined));
    return this.#joining;
  }

  /**
   * Asks the store to reserve no more tasks for this worker. A failure is ignored, because leaving has the same effect.
   */
  retire(): void {
    if (this.#session !== undefined) this.#port.retire(this.#session).catch(() => {});
  }

  /**
   * Releases the session's claims. If the store is unavailable for longer than LEAVE_PATIENCE_MS, the lease ends them.
   */
  async leave(): Promise<void> {
    await this.#joining?.catch(() => {});
    const session = this.#session;
    if (session === undefined) return;
    let isOver = false;
    // A store may take long to report that it cannot be reached.
    await new Promise<void>((resolve) => {
      const stopTimer = this.#port.clock.after(LEAVE_PATIENCE_MS, resolve);
      void this.#leaveWithRetries(session, () => isOver).finally(() => {
        stopTimer();
        resolve();
      });
    });
    isOver = true;
  }

  async #leaveWithRetries(session: number, isOver: () => boolean): Promise<void> {
    const { clock } = this.#port;
    for (let ms = FIRST_PAUSE_MS; !isOver(); ms *= 2) {
      try {
        return await this.#port.leave(session);
      } catch (error) {
        if (!isDibsError(error) || !error.retryable) return;
        await new Promise<void>((resolve) => clock.after(ms, resolve));
      }
    }
  }

  async #joinOnce(): Promise<void> {
    const { queues } = this.#member;
    const policies = await Promise.all(queues.map((queue) => this.#port.declare(queue, {})));
    const lease = Math.min(...policies.map((policy) => policy.lease));
    const info = { ...this.#member, queues: [...queues], host: hostname(), pid: process.pid };
    const session = await this.#port.join(info, lease, (notice) => this.#onNotice(notice, session));
    this.#session = session;
  }

  /** Retries until the store answers or this worker is stopped. */
  async #untilReachable(attempt: () => Promise<void>): Promise<void> {
    for (let ms = FIRST_PAUSE_MS; ; ms = Math.min(ms * 2, LONGEST_PAUSE_MS)) {
      try {
        return await attempt();
      } catch (error) {
        if (!isDibsError(error) || !error.retryable || this.#stopped.aborted) throw error;
        this.#logger.warn(`Worker ${this.#member.id} cannot reach the store, trying again: ${error.message}`);
        await pause(this.#port.clock, ms, this.#stopped);
      }
    }
  }
}

/** Waits for `ms`, or until the signal aborts. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stopTimer();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const stopTimer = clock.after(ms, done);
    signal.addEventListener("abort", done);
  });
}
