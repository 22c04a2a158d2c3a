import type { Connection } from "./connection.ts";

/** Most transactions end as soon as they have added something. */
const FIRST_MS = 4;
const LONGEST_MS = 500;
/** The slow poll finds what commits later. */
const GIVE_UP_MS = 60_000;

const STATUS = `SELECT xid::text, pg_xact_status(xid) AS status FROM unnest($1::xid8[]) AS xid`;

export interface WatchOptions {
  query: <T>(work: (link: Connection) => Promise<T>) => Promise<T>;
  onCommit: () => void;
}

/**
 * Reports to the engine when callers' transactions commit, if no notification does (`listen: false`). It asks the server
 * for their outcome, soon and then less and less often.
 */
export class CommitWatch {
  readonly #options: WatchOptions;
  /** When to give up, by the transaction's number. */
  readonly #open = new Map<string, number>();
  #pause = FIRST_MS;
  #timer: NodeJS.Timeout | undefined;
  #nextAt = 0;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  watch(xid: string): void {
    this.#open.set(xid, performance.now() + GIVE_UP_MS);
    this.#pause = FIRST_MS;
    // Further transactions must not postpone a check that is near.
    const isSoon = this.#timer !== undefined && this.#nextAt - performance.now() <= FIRST_MS;
    if (!isSoon) this.#sleep();
  }

  close(): void {
    this.#open.clear();
    clearTimeout(this.#timer);
  }

  #sleep(): void {
    clearTimeout(this.#timer);
    this.#nextAt = performance.now() + this.#pause;
    this.#timer = setTimeout(() => void this.#check(), this.#pause).unref();
    this.#pause = Math.min(this.#pause * 2, LONGEST_MS);
  }

  async #check(): Promise<void> {
    this.#timer = undefined;
    if (await this.#hasCommitted()) this.#options.onCommit();
    const now = performance.now();
    for (const [xid, until] of this.#open) if (until < now) this.#open.delete(xid);
    if (this.#open.size > 0 && this.#timer === undefined) this.#sleep();
  }

  /** Whether one of them has. If the server is unreachable, the next check asks again. */
  async #hasCommitted(): Promise<boolean> {
    const xids = [...this.#open.keys()];
    try {
      const read = (link: Connection) => link.all<{ xid: string; status: string | null }>(STATUS, xids);
      const over = (await this.#options.query(read)).filter(({ status }) => status !== "in progress");
      for (const { xid } of over) this.#open.delete(xid);
      return over.some(({ status }) => status === "committed");
    } catch {
      return false;
    }
  }
}
