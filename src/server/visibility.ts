import { claimLost, type DibsError, isDibsError } from "../core/errors/errors.ts";
import type { Port } from "../core/port.ts";
import { type Stage, stageQueue } from "../core/run/run.ts";
import { taskNotFound } from "../core/errors/task-not-found.ts";
import type { ClaimedTask, ClaimRef } from "../core/task/task.ts";
import { checkClaim } from "../broker/check.ts";
import type { Grant, Kind } from "./scopes.ts";

/** How many claimed tasks are remembered with their queue, so that a settlement does not have to look its task up. */
const REMEMBERED = 10_000;

/**
 * What a token can see of the store, for guard.ts. A task or a run is checked by the queue that the store has it in,
 * never by what the caller says. A token without any scope on that queue gets the answer for an id that does not exist.
 * A token with another scope than the verb needs gets FORBIDDEN.
 */
export class Visibility {
  readonly #port: Port;
  readonly #grant: Grant;
  readonly #queues = new Map<string, string>();

  constructor(port: Port, grant: Grant) {
    this.#port = port;
    this.#grant = grant;
  }

  /** Remembers the queue of a task that this caller has claimed. */
  remember({ id, queue }: ClaimedTask): void {
    this.#queues.set(id, queue);
    if (this.#queues.size > REMEMBERED) this.#queues.delete(this.#queues.keys().next().value!);
  }

  /**
   * Passes the task's queue to `run`; undefined if the token covers all queues, and nothing is looked up. Waits only if
   * the task must be looked up, so that calls otherwise take effect in their order.
   */
  async onTask<T>(
    kinds: readonly Kind[],
    id: string,
    run: (queue: string | undefined) => Promise<T>,
    absent = () => taskNotFound(id),
  ): Promise<T> {
    if (kinds.some((kind) => this.#grant.allowsAll(kind))) return run(undefined);
    const known = this.#queues.get(id);
    const queue = known ?? (await this.#find(id, absent));
    this.#grant.need(kinds, [queue]);
    return run(queue);
  }

  async onClaim<T>(claim: ClaimRef, run: (queue: string | undefined) => Promise<T>): Promise<T> {
    const { id, fence } = checkClaim(claim);
    return this.onTask(["work"], id, run, () => claimLost(id, fence));
  }

  /** A run belongs to its first queue. */
  async onRun<T>(kinds: readonly Kind[], id: string, run: () => Promise<T>): Promise<T> {
    if (kinds.some((kind) => this.#grant.allowsAll(kind))) return run();
    const { pipeline, stages } = (await this.#port.run(id, { limit: 1 })).run;
    const queue = firstQueue(pipeline, stages);
    if (!this.#grant.sees(queue)) throw taskNotFound(id);
    this.#grant.need(kinds, [queue]);
    return run();
  }

  async #find(id: string, absent: () => DibsError): Promise<string> {
    try {
      const { queue } = await this.#port.task(id);
      if (this.#grant.sees(queue)) return queue;
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
    throw absent();
  }
}

export function isMissing(error: unknown): boolean {
  return isDibsError(error) && error.code === "TASK_NOT_FOUND";
}

export function queuesOf(pipeline: string, stages: readonly Stage[]): string[] {
  return stages.map((stage) => stageQueue(pipeline, stage?.name));
}

export function firstQueue(pipeline: string, stages: readonly Stage[]): string {
  return stageQueue(pipeline, stages[0]!.name);
}
