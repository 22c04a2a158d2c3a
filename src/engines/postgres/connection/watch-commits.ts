import type { Connection } from "./connection.ts";

/** Most transactions are over as soon as they have added something. */
const FIRST_MS = 4;
const LONGEST_MS = 500;
/** The slow poll finds what comes later. */
const GIVE_UP_MS = 60_000;

const STATUS = `SELECT xid::text, pg_xact_status(xid) AS status FROM unnest($1::xid8[]) AS xid`;

export interface WatchOptions {
  ask: <T>(question: (link: Connection) => Promise<T>) => Promise<T>;
  onCommit: () => void;
}

/**
 * Tells this process when transactions of its caller's commit, where no notification does (`listen: false`): the server is
 * asked what became of them, soon and then more seldom.
 */
export class CommitWatch {
  readonly #options: WatchOptions;
  /** Until when each is asked about, by its number. */
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
    // Others that follow closely do not put it off.
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
    this.#timer = setTimeout(() => void this.#look(), this.#pause).unref();
    this.#pause = Math.min(this.#pause * 2, LONGEST_MS);
  }

  async #look(): Promise<void> {
    this.#timer = undefined;
    if (await this.#hasCommitted()) this.#options.onCommit();
    const now = performance.now();
    for (const [xid, until] of this.#open) if (until < now) this.#open.delete(xid);
    if (this.#open.size > 0 && this.#timer === undefined) this.#sleep();
  }

  /** One of them. A server that cannot be asked now is asked again. */
  async #hasCommitted(): Promise<boolean> {
    const xids = [...this.#open.keys()];
    try {
      const ask = (link: Connection) => link.all<{ xid: string; status: string | null }>(STATUS, xids);
      const over = (await this.#options.ask(ask)).filter(({ status }) => status !== "in progress");
      for (const { xid } of over) this.#open.delete(xid);
      return over.some(({ status }) => status === "committed");
    } catch {
      return false;
    }
  }
}
