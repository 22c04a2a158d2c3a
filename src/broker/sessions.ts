import { invalid } from "../core/errors/errors.ts";
import { LIMITS } from "../core/input/limits.ts";
import { checkNumber, checkText } from "../core/input/options.ts";
import type { ClaimNotice } from "../core/task/claim-call.ts";
import type { Paged, PageQuery } from "../core/answer/page.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import { show } from "../core/errors/show.ts";
import type { WorkerInfo, WorkerRecord } from "../core/task/task.ts";
import type { Notice } from "../engine/hint.ts";
import { checkPage } from "./check.ts";
import type { Context } from "./context.ts";

// The verbs of workers' sessions (join, reconcile, rejoin, retire, leave, workers), and the notices about their claims.

const checkSession = (session: unknown): unknown =>
  checkNumber(session, "session", 0, Number.MAX_SAFE_INTEGER);

function checkFences(fences: unknown): void {
  if (!Array.isArray(fences)) throw invalid(`fences is an array of numbers; got ${show(fences)}.`);
  for (const fence of fences) checkNumber(fence, "fence", 0, Number.MAX_SAFE_INTEGER);
}

/** Delivers the engine's notices to the workers of this process. */
export class Sessions {
  readonly #context: Context;
  readonly #listeners = new Map<number, (notice: ClaimNotice) => void>();

  constructor(context: Context) {
    this.#context = context;
  }

  async join(worker: WorkerInfo, lease: number, listener: (notice: ClaimNotice) => void): Promise<number> {
    checkText(worker.id, "A worker's id", LIMITS.workerName);
    checkText(worker.name, "A worker's name", LIMITS.workerName);
    checkText(worker.host, "A worker's host", LIMITS.workerName);
    checkNumber(worker.pid, "A worker's pid", 0, Number.MAX_SAFE_INTEGER);
    checkNumber(worker.concurrency, "concurrency", 1, Number.MAX_SAFE_INTEGER);
    if (!Array.isArray(worker.queues) || worker.queues.length === 0)
      throw invalid(`A worker serves at least one queue; got ${show(worker.queues)}. Name its queues.`);
    worker.queues.forEach(checkQueueName);
    checkNumber(lease, "lease", 1, Number.MAX_SAFE_INTEGER);
    const { id, name, queues, concurrency, host, pid } = worker;
    const known = { id, name, queues, concurrency, host, pid };
    const { session } = await this.#context.run({ verb: "join", worker: known, lease });
    this.#listeners.set(session, listener);
    return session;
  }

  async reconcile(session: number, fences: number[]): Promise<void> {
    checkSession(session);
    checkFences(fences);
    await this.#context.run({ verb: "reconcile", session, fences });
  }

  async rejoin(
    old: number,
    fences: number[],
    listener: (notice: ClaimNotice) => void,
  ): Promise<{ session: number; lost: number[] }> {
    checkSession(old);
    checkFences(fences);
    const { session, lost } = await this.#context.run({ verb: "rejoin", session: old, fences });
    this.#listeners.delete(old);
    this.#listeners.set(session, listener);
    return { session, lost };
  }

  async retire(session: number): Promise<void> {
    checkSession(session);
    await this.#context.run({ verb: "retire", session });
  }

  async leave(session: number, { lost = false }: { lost?: boolean } = {}): Promise<void> {
    checkSession(session);
    this.#listeners.delete(session);
    await this.#context.run({ verb: "leave", session, ...(lost && { lost: true }) });
  }

  async list(query: PageQuery & { queue?: string | undefined } = {}): Promise<Paged<WorkerRecord>> {
    const page = checkPage(query, "workers", "queue");
    const { queue } = query;
    return this.#context.run({
      ...{ verb: "workers", ...page },
      ...(queue !== undefined && { queue: checkQueueName(queue) }),
    });
  }

  deliver(notices: Notice[]): void {
    for (const notice of notices) {
      const listener = this.#listeners.get(notice.session);
      if (notice.kind === "gone") this.#listeners.delete(notice.session);
      listener?.(notice);
    }
  }
}
