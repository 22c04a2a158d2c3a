import type { QueuePolicy } from "../core/queue/policy.ts";

/**
 * How many tasks a worker claims ahead, beyond its free slots (docs/decisions/0033). `prefetch: "auto"` allows only what
 * will start within a few milliseconds by the times that the worker has seen. A number always allows that many.
 */

/** Only tasks that will start within this time are claimed ahead. Handlers that take longer have nothing prefetched. */
export const PLANNED_MS = 10;
/** A task that was claimed ahead and has not started after this time is given back. */
export const LONGEST_MS = 25;
/** The first prefetch needs this many short tasks in a row. Then the allowance doubles with each round. */
const FIRST = 8;
/** A claim takes at most a thousand tasks. */
const MOST = 900;
/**
 * A slow task raises the estimate at once. Each shorter one after it lowers the estimate by this share of the
 * difference.
 */
const DECAY = 1 / 16;

export class Prefetch {
  readonly #given: number | "auto";
  readonly #concurrency: number;
  /** Short tasks in a row, up to MOST. Fewer if the last ones waited longer than planned. */
  #shortOnes = 0;
  /** How long handlers take: the slowest recent one, not the mean. */
  #slowest = 0;
  /** Queues whose limits count claimed tasks. */
  readonly #limited = new Set<string>();

  constructor(given: number | "auto", concurrency: number) {
    this.#given = given;
    this.#concurrency = concurrency;
  }

  get isAuto(): boolean {
    return this.#given === "auto";
  }

  /** How many tasks may be claimed beyond the free slots. */
  get allowance(): number {
    if (this.#given !== "auto") return this.#given;
    if (this.#shortOnes < FIRST || this.#slowest > PLANNED_MS || this.isLimited) return 0;
    return Math.min(this.#shortOnes, Math.floor((this.#concurrency * PLANNED_MS) / this.#slowest));
  }

  /**
   * Whether a queue's limits count claimed tasks. Then nothing is prefetched: a task would use up the limit, or bind
   * its group to this worker, before it starts.
   */
  get isLimited(): boolean {
    return this.#given === "auto" && this.#limited.size > 0;
  }

  /** The policies that came with a claim: an operator may change them at any time. */
  learn(policies: Record<string, QueuePolicy>): void {
    if (this.#given !== "auto") return;
    for (const queue in policies) {
      if (countsClaims(policies[queue]!)) this.#limited.add(queue);
      else if (this.#limited.size > 0) this.#limited.delete(queue);
    }
  }

  /** Call it with the time that a handler took. */
  handled(ms: number): void {
    this.#slowest = ms > this.#slowest ? ms : this.#slowest + (ms - this.#slowest) * DECAY;
    if (ms > PLANNED_MS) this.#shortOnes = 0;
    else if (this.#shortOnes < MOST) this.#shortOnes++;
  }

  /** Call it with the longest wait, from claim to start, of the tasks that just started. */
  waited(ms: number): void {
    if (ms > PLANNED_MS) this.#shortOnes = Math.floor((this.#shortOnes * PLANNED_MS) / ms);
  }

  /** Call it after tasks had to be given back because handlers take longer than before. */
  gaveBack(): void {
    this.handled(LONGEST_MS);
  }
}

function countsClaims({ maxConcurrency, rateLimit, groups }: QueuePolicy): boolean {
  return maxConcurrency !== null || rateLimit.length > 0 || groups.rateLimit.length > 0 || groups.sticky;
}
