import { randomUUID } from "node:crypto";
import { DibsError, invalid } from "../core/errors/errors.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import { sleepUntil } from "../core/time/sleep.ts";
import type { BulkJob, NewBulkJob } from "./contract.ts";
import { changeMatches, countMatches, describeJob } from "./job-work.ts";
import type { Viewer } from "./viewer.ts";

/** Jobs at a time, and ended jobs that are shown. */
const MOST_RUNNING = 10;
const MOST_ENDED = 50;

interface Kept {
  job: BulkJob;
  stop: AbortController;
  ended: Promise<void>;
}

/**
 * Bulk jobs: changes of everything that matches, in small batches, with progress. They are carried out with the rights
 * of their caller, end if its token is revoked, and live as long as the server.
 */
export class Jobs {
  readonly #kept = new Map<string, Kept>();
  #revision = 0;

  /** Grows with each change. */
  get revision(): number {
    return this.#revision;
  }

  /** @param port the caller's, without an audit entry for each batch: the start of the job is one */
  async start(port: Port, viewer: Viewer, given: NewBulkJob): Promise<BulkJob> {
    check(given);
    const running = [...this.#kept.values()].filter(({ job }) => job.state === "running");
    if (running.length >= MOST_RUNNING)
      throw new DibsError(
        "UNAVAILABLE",
        `${running.length} bulk jobs are running, which is the most. Wait for one to end, or stop one.`,
      );
    const job: BulkJob = {
      id: randomUUID(),
      action: given.action,
      queue: given.queue ?? null,
      text: describeJob(given),
      by: viewer.name,
      state: "running",
      total: await countMatches(port, given),
      ...{ done: 0, skipped: 0, startedAt: Math.floor(port.clock.read().wall), endedAt: null, error: null },
    };
    const stop = new AbortController();
    const kept: Kept = { job, stop, ended: Promise.resolve() };
    this.#kept.set(job.id, kept);
    this.#revision++;
    kept.ended = this.#run(port, viewer, given, kept);
    return job;
  }

  list(viewer: Viewer): BulkJob[] {
    return [...this.#kept.values()]
      .map(({ job }) => job)
      .filter((job) => isVisible(job, viewer))
      .toReversed();
  }

  /** The frame of the live feed. */
  textFor(viewer: Viewer): string {
    return JSON.stringify({ type: "jobs", jobs: this.list(viewer) });
  }

  find(id: string, viewer: Viewer): BulkJob | undefined {
    const found = this.#kept.get(id)?.job;
    return found && isVisible(found, viewer) ? found : undefined;
  }

  /** Resolves when the batch in progress has ended. */
  async stop(id: string): Promise<void> {
    const kept = this.#kept.get(id);
    kept?.stop.abort();
    await kept?.ended;
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.#kept.keys()].map((id) => this.stop(id)));
  }

  async #run(port: Port, viewer: Viewer, given: NewBulkJob, { job, stop }: Kept): Promise<void> {
    try {
      for await (const { done, skipped } of changeMatches(port, given, {
        before: job.startedAt,
        isAllowed: (queue) => viewer.administers(queue),
      })) {
        job.done += done;
        job.skipped += skipped;
        this.#revision++;
        if (stop.signal.aborted) break;
        if (!viewer.isWelcome()) throw new DibsError("FORBIDDEN", "The token that started it was revoked.");
        if (given.rate !== undefined)
          await sleepUntil(port.clock, ((done + skipped) * 1_000) / given.rate, stop.signal);
        if (stop.signal.aborted) break;
      }
      job.state = stop.signal.aborted ? "stopped" : "finished";
    } catch (error) {
      job.state = "failed";
      job.error = (error as Error).message;
    }
    job.endedAt = Math.floor(port.clock.read().wall);
    this.#revision++;
    const ended = [...this.#kept.values()].filter((kept) => kept.job.state !== "running");
    for (const kept of ended.slice(0, -MOST_ENDED)) this.#kept.delete(kept.job.id);
  }
}

function isVisible({ queue, by }: BulkJob, viewer: Viewer): boolean {
  return queue === null ? by === viewer.name || viewer.readsAll : viewer.reads(queue);
}

function check({ action, queue, ids, pattern, error, q, rate }: NewBulkJob): void {
  const hasFilter = ids !== undefined || pattern !== undefined || error !== undefined;
  if (q !== undefined && hasFilter)
    throw invalid("A job takes q, or ids, pattern and error, and not both: they select in different ways.");
  if (queue === undefined && q === undefined)
    throw invalid("A job needs a queue, or q with what to search for.");
  if (action === "cancel" && (pattern !== undefined || error !== undefined))
    throw invalid("pattern and error select dead letters, which have ended. To cancel tasks, use ids or q.");
  if (rate !== undefined && !(rate > 0 && rate <= 1_000_000))
    throw invalid(`rate must be a number of tasks per second above 0; got ${show(rate)}.`);
}
