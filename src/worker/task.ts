import { refuseSurplus } from "../core/arguments.ts";
import { type Duration, parseDuration } from "../core/duration.ts";
import type { Json } from "../core/json-type.ts";
import { Claim } from "./claim.ts";
import { Steps } from "./steps.ts";

/** What a handler is given: a claim, and a signal that says when to stop working on it. */
export class Task<Data = unknown, Result = unknown> extends Claim<Data, Result> {
  /** Made when a handler first asks for it: most never do, and it costs more than the rest of the task. */
  #controller: AbortController | undefined;
  #abortedWith: { reason: unknown } | undefined;

  /** Aborts when the claim is lost, the task is cancelled or out of time, or the worker stops. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#abortedWith) this.#controller.abort(this.#abortedWith.reason);
    }
    return this.#controller.signal;
  }

  #steps: Steps | undefined;

  /**
   * Runs `take` once for this task, and keeps what it returned: a handler that runs again, because it failed, was lost or
   * parked, gets that in place of running it. By JSON, so that both runs see the same.
   */
  step<T>(name: string, take: () => Promise<T> | T): Promise<Json<T>> {
    return this.#stepping().step(name, take) as Promise<Json<T>>;
  }

  /**
   * What `signal(name, data)` on the task's handle brings. Where it has not come yet, the task is parked: this run of the
   * handler ends here, nobody is held, and the handler runs again from the top when it comes. Throws TIMEOUT where it
   * does not come in time.
   */
  waitFor<T = unknown>(name: string, options: { timeout?: Duration | undefined } = {}): Promise<Json<T>> {
    return this.#stepping().waitFor(name, options) as Promise<Json<T>>;
  }

  #stepping(): Steps {
    this.#steps ??= new Steps(this.port, this.claimed);
    return this.#steps;
  }

  /** @internal What it is parked for, whatever its handler answers. */
  get waiting(): Steps["waiting"] {
    return this.#steps?.waiting;
  }

  /** @internal The worker counts the timeout too. */
  onExtended: ((lease: number) => void) | undefined;

  /** The attempt may take `lease` longer, from now; in place of what is left of the queue's timeout. */
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

/** Results in the order of the tasks, or nothing: tasks that were not settled by then are acked. */
export type BatchHandler<Data = unknown, Result = unknown> = (
  tasks: Task<Data, Result>[],
) => Promise<Result[] | void> | Result[] | void;

refuseSurplus(Task, "task", { promises: { step: "name, take", waitFor: "name, options", extend: "lease" } });
