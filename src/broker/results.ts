import type { Clock } from "../core/time/clock.ts";
import { parseDuration } from "../core/time/duration.ts";
import { DibsError, isDibsError } from "../core/errors/errors.ts";
import { StillPending, type WaitOptions } from "../core/port.ts";
import type { RunState } from "../core/run/run.ts";
import { taskNotFound } from "../core/errors/task-not-found.ts";
import { END_STATES, type TaskEnd, type TaskState } from "../core/task/task.ts";
import type { Verbs } from "../engine/engine.ts";
import { checkTaskId } from "./check.ts";

// The verb `end`, which waits for the end of a task or a run. `task.result()` and the results of runs call it.

const PAGE = 1_000;

interface Waiter {
  /** Timeout zero: reads once, and does not wait. */
  once: boolean;
  resolve(end: TaskEnd): void;
  reject(error: unknown): void;
}

/**
 * The callers that wait for tasks or runs to end, in whichever process that happens. One read is in progress at a time.
 */
export class Results {
  readonly #ask: (ids: string[]) => Promise<Verbs["ends"]["out"]>;
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Set<Waiter>>();
  /** Ids of tasks and runs that may have ended since they were last read. */
  readonly #suspected = new Set<string>();
  #asking = false;

  constructor(ask: (ids: string[]) => Promise<Verbs["ends"]["out"]>, clock: Clock) {
    this.#ask = ask;
    this.#clock = clock;
  }

  end(id: string, options: WaitOptions = {}): Promise<TaskEnd> {
    checkTaskId(id);
    const timeout = options.timeout === undefined ? undefined : parseDuration(options.timeout, "timeout");
    options.signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        stopTimer?.();
        options.signal?.removeEventListener("abort", abort);
        const waiters = this.#waiting.get(id);
        waiters?.delete(waiter);
        if (waiters?.size === 0) this.#waiting.delete(id);
      };
      const waiter: Waiter = {
        once: timeout === 0,
        resolve: (end) => (leave(), resolve(end)),
        reject: (error) => (leave(), reject(error)),
      };
      const abort = (): void => waiter.reject(options.signal!.reason);
      options.signal?.addEventListener("abort", abort, { once: true });
      const stopTimer =
        timeout === undefined || timeout === 0
          ? undefined
          : this.#clock.after(timeout, () => waiter.reject(notInTime(id, timeout)));
      const waiters = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, waiters.add(waiter));
      this.check([id]);
    });
  }

  /** An unknown task ended: check all ids with waiting callers. */
  checkAll(): void {
    this.#suspect(this.#waiting.keys());
  }

  /** This process settled these tasks: check those with waiting callers. */
  check(ids: Iterable<string>): void {
    if (this.#waiting.size > 0) this.#suspect(ids);
  }

  #suspect(ids: Iterable<string>): void {
    for (const id of ids) if (this.#waiting.has(id)) this.#suspected.add(id);
    if (this.#suspected.size > 0 && !this.#asking) void this.#askAll();
  }

  close(): void {
    this.#rejectAll(new DibsError("CLOSED", "Closed while waiting for a result. The task continues."));
  }

  #rejectAll(error: unknown): void {
    for (const waiters of this.#waiting.values()) for (const waiter of [...waiters]) waiter.reject(error);
  }

  async #askAll(): Promise<void> {
    this.#asking = true;
    while (this.#suspected.size > 0) {
      const ids = [...this.#suspected].slice(0, PAGE);
      for (const id of ids) this.#suspected.delete(id);
      await this.#askFor(ids);
    }
    this.#asking = false;
  }

  async #askFor(ids: string[]): Promise<void> {
    let once = ids.flatMap((id) =>
      [...(this.#waiting.get(id) ?? [])].filter((waiter) => waiter.once).map((waiter) => ({ id, waiter })),
    );
    try {
      const ends = await this.#ask(ids);
      const left = new Set(ids.slice(ends.length));
      once = once.filter(({ id }) => !left.has(id));
      for (const id of left) if (this.#waiting.has(id)) this.#suspected.add(id);
      for (const [index, end] of ends.entries()) {
        const id = ids[index]!;
        if (end === "pending") continue;
        for (const waiter of [...(this.#waiting.get(id) ?? [])]) {
          if (end === "missing") waiter.reject(taskNotFound(id));
          else waiter.resolve(end);
        }
      }
    } catch (error) {
      // The store may recover: callers go on waiting, up to their own timeout.
      if (!(error as DibsError).retryable) this.#rejectAll(error);
      else for (const { waiter } of once) waiter.reject(error);
    }
    for (const { id, waiter } of once) waiter.reject(notInTime(id, 0));
  }
}

function notInTime(id: string, timeout: number): DibsError {
  return new DibsError(
    "TIMEOUT",
    `Task ${id} did not end within ${timeout} ms. It continues; wait again, or cancel it.`,
  );
}

/** Waits for an end. With `tellState`, a TIMEOUT contains the current state. */
export async function endOrState(
  end: (wait?: WaitOptions) => Promise<TaskEnd>,
  stateOf: () => Promise<TaskState | RunState>,
  wait?: WaitOptions,
): Promise<TaskEnd> {
  if (!wait?.tellState) return end(wait);
  try {
    return await end(wait);
  } catch (error) {
    if (!isDibsError(error) || error.code !== "TIMEOUT") throw error;
    const state = await stateOf();
    // The task has ended since the timeout.
    if ((END_STATES as readonly string[]).includes(state)) return end({ ...wait, timeout: 0 });
    throw new StillPending(error.message, state);
  }
}
