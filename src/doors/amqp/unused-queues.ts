import type { QueueRecord } from "./topology.ts";
import { fieldOf, numberOf } from "./wire/table.ts";

/** Longer times than a timer can have are checked when it fires. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Deletes queues that were declared with `x-expires` and were not used for so long. A use is a declaration, a basic.get,
 * and the end of the last consumer. A queue with consumers is used all the time.
 */
export class UnusedQueues {
  readonly #timers = new Map<string, NodeJS.Timeout>();
  readonly #isUsed: (record: QueueRecord) => Promise<boolean>;
  readonly #remove: (record: QueueRecord) => Promise<void>;
  readonly #find: (vhost: string, name: string) => QueueRecord | undefined;

  constructor(options: {
    find: (vhost: string, name: string) => QueueRecord | undefined;
    /** It has consumers, on this server or another one. */
    isUsed: (record: QueueRecord) => Promise<boolean>;
    remove: (record: QueueRecord) => Promise<void>;
  }) {
    this.#find = options.find;
    this.#isUsed = options.isUsed;
    this.#remove = options.remove;
  }

  /** Its time starts again. */
  used(vhost: string, name: string): void {
    const record = this.#find(vhost, name);
    const ms = numberOf(fieldOf(record?.arguments ?? [], "x-expires"));
    const id = JSON.stringify([vhost, name]);
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    if (record && ms !== undefined) this.#watch(id, record, performance.now() + ms);
  }

  #watch(id: string, record: QueueRecord, until: number): void {
    const wait = Math.min(until - performance.now(), LONGEST_TIMER_MS);
    const timer = setTimeout(() => void this.#check(id, record, until), Math.max(1, wait));
    this.#timers.set(id, timer.unref());
  }

  async #check(id: string, record: QueueRecord, until: number): Promise<void> {
    const { vhost, name } = record;
    if (performance.now() < until) return this.#watch(id, record, until);
    const timer = this.#timers.get(id);
    try {
      const isUsed = await this.#isUsed(record);
      // A use during the read has started another timer; what was read is older than it.
      if (this.#timers.get(id) !== timer) return;
      if (isUsed) return this.used(vhost, name);
      this.#timers.delete(id);
      await this.#remove(record);
    } catch {
      // The store is not available: checked again after the same time.
      this.used(vhost, name);
    }
  }

  stop(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}
