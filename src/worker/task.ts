import { refuseSurplus } from "../core/input/arguments.ts";
import { ChildFailedError } from "../core/handler/child-failed.ts";
import type { ChildEnd } from "../core/handler/children.ts";
import { type Duration, parseDuration } from "../core/time/duration.ts";
import { decodeBody } from "../core/input/json.ts";
import type { Json, Payload } from "../core/input/json-type.ts";
import { suppressUnhandled } from "../core/errors/suppress-unhandled.ts";
import type { SettleCall } from "../core/task/claim-call.ts";
import { JSON_TYPE } from "../core/task/task.ts";
import { Children, type SpawnedHandle, type SpawnTarget, type WaitForChildrenOptions } from "./children.ts";
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

  /**
   * Adds a child of this task now, under its claim, and returns a handle of it. A handler that is called again gets the
   * same child: children are told apart by `name`, or by the order of the calls. Options are those of an add.
   */
  spawn<In, Options, Handle>(
    queue: SpawnTarget<In, Options, Handle>,
    data: Payload<In>,
    options?: Options & { name?: string | undefined },
  ): Promise<Handle> {
    return suppressUnhandled(this.#family().spawn(queue, data as In, options));
  }

  /**
   * Returns the results of these children, or of all that this call of the handler has spawned so far, in the order of
   * the spawns. If one has not ended, the task is parked: no worker is occupied, and the handler is called again from the
   * top when the last of them ends. Throws ChildFailedError if one is dead, cancelled or expired, and TIMEOUT.
   */
  waitForChildren<const Handles extends readonly ChildLike[] = readonly ChildLike[]>(
    children?: Handles,
    options: WaitForChildrenOptions = {},
  ): Promise<ChildResults<Handles>> {
    return suppressUnhandled(this.#results(children, options));
  }

  async #results<Handles extends readonly ChildLike[]>(
    children: Handles | undefined,
    options: WaitForChildrenOptions,
  ): Promise<ChildResults<Handles>> {
    const ends = await this.#family().ends(children, options);
    const failed = ends.find(({ state }) => state !== "done");
    if (failed) throw new ChildFailedError(failed);
    return ends.map(resultOf) as ChildResults<Handles>;
  }

  /** As waitForChildren, with the outcome of each child instead of an error: compare Promise.allSettled. */
  waitForChildOutcomes<const Handles extends readonly ChildLike[] = readonly ChildLike[]>(
    children?: Handles,
    options: WaitForChildrenOptions = {},
  ): Promise<ChildOutcomes<Handles>> {
    return suppressUnhandled(this.#outcomes(children, options));
  }

  async #outcomes<Handles extends readonly ChildLike[]>(
    children: Handles | undefined,
    options: WaitForChildrenOptions,
  ): Promise<ChildOutcomes<Handles>> {
    const ends = await this.#family().ends(children, options);
    return ends.map((end) => {
      const { id, queue, name, state } = end;
      return state === "done"
        ? { id, queue, name, state, result: resultOf(end) }
        : { id, queue, name, state, error: new ChildFailedError(end) };
    }) as ChildOutcomes<Handles>;
  }

  /** A handler may return without awaiting a spawn: the ack waits for it, since the claim ends with the ack. */
  override ackAs(result: unknown, tx?: unknown): Promise<void> {
    const pending = this.#children?.pending;
    return pending ? pending.then(() => super.ackAs(result, tx)) : super.ackAs(result, tx);
  }

  /** A park waits for spawns too, as the ack does: a child may send the signal that the task waits for. */
  override settleAs(call: SettleCall, given?: unknown): Promise<void> {
    const pending = call.kind === "park" ? this.#children?.pending : undefined;
    return pending ? pending.then(() => super.settleAs(call, given)) : super.settleAs(call, given);
  }

  #children: Children | undefined;

  #family(): Children {
    this.#children ??= new Children(this.port, this.claimed, this.#stepping());
    return this.#children;
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

function resultOf({ result }: ChildEnd): unknown {
  return result === null ? undefined : decodeBody(result, JSON_TYPE);
}

/** What spawn() returns. Only its type matters here: it carries the type of the child's result. */
export interface ChildLike extends SpawnedHandle {
  result(): Promise<unknown>;
}

type ResultOf<Handle extends ChildLike> = Awaited<ReturnType<Handle["result"]>>;

/** The results of the given children, in the order of the arguments. */
export type ChildResults<Handles extends readonly ChildLike[]> = {
  -readonly [K in keyof Handles]: ResultOf<Handles[K]>;
};

/** How one child ended. */
export type ChildOutcome<Result = unknown> = { id: string; queue: string; name: string | null } & (
  | { state: "done"; result: Result }
  | { state: "dead" | "cancelled" | "expired"; error: ChildFailedError }
);

export type ChildOutcomes<Handles extends readonly ChildLike[]> = {
  -readonly [K in keyof Handles]: ChildOutcome<ResultOf<Handles[K]>>;
};

export type Handler<Data = unknown, Result = unknown> = (
  task: Task<Data, Result>,
) => Promise<Result> | Result;

/** Results in the order of the tasks, or nothing. Tasks that are not settled by then are acked. */
export type BatchHandler<Data = unknown, Result = unknown> = (
  tasks: Task<Data, Result>[],
) => Promise<Result[] | void> | Result[] | void;

refuseSurplus(Task, "task", {
  promises: {
    step: "name, take",
    waitFor: "name, options",
    sleep: "duration",
    spawn: "queue, data, options",
    waitForChildren: "children, options",
    waitForChildOutcomes: "children, options",
    extend: "lease",
  },
});
