import { Worker } from "node:worker_threads";
import { systemClock } from "../../engine/system-clock.ts";
import type { LinkOptions } from "./link.ts";
import type { Ran } from "./store.ts";
import type { TxOptions } from "./tx.ts";

/** What the thread is started with. */
export interface PulseData {
  link: LinkOptions;
  tx: TxOptions;
  where: string;
  patience: number;
}

export type PulseRequest =
  | { join: number; lease: number; sentAt: number }
  | { leave: number }
  | { close: true };

/** A beat that came through, with what it brought; or sessions of which none did for a whole lease. */
export type PulseReport = { ran: Ran } | { lost: number[] };

/**
 * Beats the sessions that joined through here, from a thread with a connection of its own: a handler that blocks the
 * event loop must not lose its claims. Started with the first session, and anew if it ended.
 */
export class Pulse {
  readonly #data: PulseData;
  readonly #onReport: (report: PulseReport) => void;
  readonly #leases = new Map<number, number>();
  #thread: Worker | undefined;
  #stopped = false;

  constructor(data: PulseData, onReport: (report: PulseReport) => void) {
    this.#data = data;
    this.#onReport = onReport;
  }

  /** `sentAt`: when it was asked to join, awake. The store counts from no later, and the thread may take long to start. */
  join(session: number, lease: number, sentAt: number): void {
    this.#leases.set(session, lease);
    if (!this.#thread) this.#start();
    this.#post({ join: session, lease, sentAt });
  }

  leave(session: number): void {
    if (this.#leases.delete(session)) this.#post({ leave: session });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    const thread = this.#thread;
    if (!thread) return;
    thread.ref();
    const exited = new Promise((resolve) => thread.once("exit", resolve));
    this.#post({ close: true });
    await exited;
  }

  #post(request: PulseRequest): void {
    this.#thread?.postMessage(request);
  }

  #start(): void {
    const thread = new Worker(new URL("./pulse-thread.ts", import.meta.url), {
      workerData: this.#data,
      // Flags of the program's own, such as --input-type, are not for this thread.
      execArgv: [],
      name: "dibs pulse",
    });
    this.#thread = thread;
    thread.unref();
    thread.on("message", (report: PulseReport) => this.#onReport(report));
    // Whatever ended it: the sessions must go on.
    thread.on("error", () => {});
    thread.once("exit", () => {
      this.#thread = undefined;
      if (!this.#stopped && this.#leases.size > 0) this.#startAgain();
    });
  }

  #startAgain(): void {
    this.#start();
    // Which signs of life the thread before gave, and when, is not known here.
    const sentAt = systemClock.read().awake;
    for (const [session, lease] of this.#leases) this.#post({ join: session, lease, sentAt });
  }
}
