import { refuseSurplus } from "../core/arguments.ts";
import { type Duration, parseDuration } from "../core/duration.ts";
import type { Json } from "../core/json-type.ts";
import { Claim } from "./claim.ts";
import { Steps } from "./steps.ts";

/** What a handler gets: a claim, and a signal that aborts when the handler should stop. */
export class Task<Data = unknown, Result = unknown> extends Claim<Data, Result> {
  /** Created on first use: most handlers never use it, and it costs more than the rest of the task. */
  #controller: AbortController | undefined;
  #abortedWith: { reason: unknown } | undefined;

  /** Aborts when the claim is lost, the task is cancelled or times out, or the worker stops. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#abortedWith) this.#controller.abort(this.#abortedWith.reason);
    }
    return this.#controller.signal;
  }

  #steps: Steps | undefined;

  /**
   * Runs `take` once for this task and stores what it returned. A handler that is called again, because the attempt
   * failed, was lost or parked, gets the stored value instead. The value passes through JSON, so that all attempts see
   * the same.
   */
  step<T>(name: string, take: () => Promise<T> | T): Promise<Json<T>> {
    return this.#stepping().step(name, take) as Promise<Json<T>>;
  }

  /**
   * Returns the data of `signal(name, data)` on the task's handle. If the signal has not arrived, the task is parked:
   * this call of the handler ends here, no worker is occupied, and the handler is called again from the top when it
   * arrives. Throws TIMEOUT if it does not arrive in time.
   */
  waitFor<T = unknown>(name: string, options: { timeout?: Duration | undefined } = {}): Promise<Json<T>> {
    return this.#stepping().waitFor(name, options) as Promise<Json<T>>;
  }

  /**
   * A pause that survives restarts and occupies no worker: the task is parked, this call of the handler ends here, and
   * the handler is called again from the top when the time is over. The sleeps of a handler are told apart by their
   * order, so call them in the same order in every attempt. A sleep that is over stays over.
   */
  sleep(duration: Duration): Promise<void> {
    return this.#stepping().sleep(duration);
  }

  #stepping(): Steps {
    this.#steps ??= new Steps(this.port, this.claimed);
    return this.#steps;
  }

  /** @internal The signal that it is parked for, whatever its handler answers. */
  get waiting(): Steps["waiting"] {
    return this.#steps?.waiting;
  }

  /** @internal Set by the worker, which counts the timeout too. */
  onExtended: ((lease: number) => void) | undefined;

  /** The attempt may take `lease` from now on, instead of what is left of the queue's timeout. */
  override async extend(lease: Duration): Promise<void> {
    await super.extend(lease);
    this.onExtended?.(parseDuration(lease, "lease", 1));
  }

  /** @internal */
  abort(reason: unknown): void {
    this.#abortedWith ??= { reason };
    this.#controller?.abort(reason);
  }
}

export type Handler<Data = unknown, Result = unknown> = (
  task: Task<Data, Result>,
) => Promise<Result> | Result;

/** Results in the order of the tasks, or nothing. Tasks that are not settled by then are acked. */
export type BatchHandler<Data = unknown, Result = unknown> = (
  tasks: Task<Data, Result>[],
) => Promise<Result[] | void> | Result[] | void;

refuseSurplus(Task, "task", {
  promises: { step: "name, take", waitFor: "name, options", sleep: "duration", extend: "lease" },
});
