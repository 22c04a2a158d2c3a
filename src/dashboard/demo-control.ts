import { DibsError, invalid } from "../core/errors/errors.ts";
import type { Demo, DemoChange } from "./contract.ts";

/** What src/demo gives: `startDemo` and the running demo. Injected, because only a server can have one. */
export type StartDemo = (options: {
  url: string;
  token?: string | undefined;
  rate?: number | undefined;
  workers?: number | undefined;
}) => Promise<RunningDemo>;

export interface RunningDemo {
  status(): { rate: number; workers: number; running: boolean };
  set(settings: { rate?: number | undefined; workers?: number | undefined }): void;
  stop(): Promise<void>;
}

/** Before it runs, as it would start. */
const DEFAULTS = { rate: 20, workers: 3 };
const LIMITS = { rate: { min: 0, max: 5_000 }, workers: { min: 0, max: 32 } };
const QUEUE = "emails";

/** Starts, steers and ends the demo's traffic, one at a time. Its processes are clients of this server. */
export class DemoControl {
  readonly #start: StartDemo;
  readonly #url: () => string;
  #running: RunningDemo | undefined;
  /** Changes happen one after the other. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(start: StartDemo, url: () => string) {
    this.#start = start;
    this.#url = url;
  }

  read(): Demo {
    const status = this.#running?.status();
    const { rate, workers } = status ?? DEFAULTS;
    return { running: status?.running ?? false, rate, workers, queue: QUEUE, limits: LIMITS };
  }

  /** A demo that runs already, such as that of `dibs demo`. */
  steer(demo: RunningDemo): void {
    this.#running = demo;
  }

  /** @param token the caller's: the demo's processes use it */
  change(change: DemoChange, token: string | undefined): Promise<Demo> {
    const next = this.#last.then(() => this.#apply(change, token));
    this.#last = next.catch(() => {});
    return next;
  }

  async stop(): Promise<void> {
    await this.#last;
    await this.#running?.stop();
    this.#running = undefined;
  }

  async #apply({ running, rate, workers }: DemoChange, token: string | undefined): Promise<Demo> {
    const settings = { ...(rate !== undefined && { rate }), ...(workers !== undefined && { workers }) };
    if (running === false) {
      await this.#running?.stop();
      this.#running = undefined;
    } else if (this.#running?.status().running) this.#running.set(settings);
    else if (running === true) this.#running = await this.#start({ url: this.#url(), token, ...settings });
    else throw invalid("The demo does not run. Start it with running: true.");
    return this.read();
  }
}

export function noDemo(): DibsError {
  return new DibsError("UNSUPPORTED", "This server cannot start the demo's traffic. Use `dibs demo`.");
}
