import { refuseSurplus } from "../core/arguments.ts";
import type { StopOptions } from "../worker/options.ts";
import type { Worker } from "../worker/worker.ts";

/** The workers of some stages of a pipeline: one for each, so that a slow stage holds no other back. */
export class PipelineWorker implements AsyncDisposable {
  /** By the name of their stage. */
  readonly workers: ReadonlyMap<string, Worker>;
  /** Resolves when all of them have joined and ask for tasks. */
  readonly ready: Promise<void>;

  constructor(workers: Map<string, Worker>, defined: Promise<void>) {
    this.workers = workers;
    this.ready = this.#start(defined);
    // Whoever does not await it learns of a failed start from the log, worker by worker.
    this.ready.catch(() => {});
  }

  async #start(defined: Promise<void>): Promise<void> {
    await Promise.all([defined, ...[...this.workers.values()].map((worker) => worker.ready)]);
  }

  get stages(): string[] {
    return [...this.workers.keys()];
  }

  /** As a worker's: takes no more tasks, and lets handlers finish. */
  async stop(options: StopOptions = {}): Promise<void> {
    await Promise.all([...this.workers.values()].map((worker) => worker.stop(options)));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

refuseSurplus(PipelineWorker, "worker", { promises: { stop: "options" } });
