import { invalid } from "../core/errors.ts";
import { LIMITS } from "../core/limits.ts";
import { checkNumber, checkText } from "../core/options.ts";
import type { ClaimNotice } from "../core/port.ts";
import { checkQueueName } from "../core/queue-name.ts";
import type { WorkerInfo } from "../core/task.ts";
import type { Notice } from "../engine/engine.ts";
import type { Context } from "./context.ts";

/** Passes the engine's notices on to the workers of this process. */
export class Sessions {
  readonly #context: Context;
  readonly #listeners = new Map<number, (notice: ClaimNotice) => void>();

  constructor(context: Context) {
    this.#context = context;
  }

  async join(worker: WorkerInfo, lease: number, listener: (notice: ClaimNotice) => void): Promise<number> {
    checkText(worker.id, "A worker's id", LIMITS.workerName);
    checkText(worker.name, "A worker's name", LIMITS.workerName);
    if (worker.queues.length === 0) throw invalid("A worker serves at least one queue.");
    worker.queues.forEach(checkQueueName);
    checkNumber(lease, "lease", 1, Number.MAX_SAFE_INTEGER);
    const { session } = await this.#context.run({ verb: "join", worker, lease });
    this.#listeners.set(session, listener);
    return session;
  }

  async leave(session: number): Promise<void> {
    this.#listeners.delete(session);
    await this.#context.run({ verb: "leave", session });
  }

  hear(notices: Notice[]): void {
    for (const notice of notices) {
      const listener = this.#listeners.get(notice.session);
      if (notice.kind === "gone") this.#listeners.delete(notice.session);
      listener?.(notice);
    }
  }
}
