import { refuseSurplus } from "../core/input/arguments.ts";
import type { StopOptions } from "../worker/options.ts";
import type { Worker } from "../worker/worker.ts";

/** The workers of some stages of a pipeline. Each stage has its own, so that a slow stage does not block the others. */
export class PipelineWorker implements AsyncDisposable {
  /** By the name of their stage. */
  readonly workers: ReadonlyMap<string, Worker>;
  /** Resolves when all of them have joined and claim tasks. */
  readonly ready: Promise<void>;

  constructor(workers: Map<string, Worker>, defined: Promise<void>) {
    this.workers = workers;
    this.ready = this.#start(defined);
    // If the caller does not await it, each worker logs its failed start.
    this.ready.catch(() => {});
  }

  async #start(defined: Promise<void>): Promise<void> {
    await Promise.all([defined, ...[...this.workers.values()].map((worker) => worker.ready)]);
  }

  get stages(): string[] {
    return [...this.workers.keys()];
  }

  /** As with a worker: claims no more tasks, and lets handlers finish. */
  async stop(options: StopOptions = {}): Promise<void> {
    await Promise.all([...this.workers.values()].map((worker) => worker.stop(options)));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

refuseSurplus(PipelineWorker, "worker", { promises: { stop: "options" } });
