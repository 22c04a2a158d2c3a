import { invalid } from "../core/errors/errors.ts";
import type { Logger } from "../core/process/logger.ts";
import { checkNames } from "../core/input/options.ts";
import { show } from "../core/errors/show.ts";
import type { Task } from "./task.ts";

/**
 * The user's functions that a worker calls when something happened to its tasks: `work(handler, { on })`. They run
 * after the commit, so they cannot change what happened. The worker does not wait for them, and only logs what they
 * throw.
 */
export interface WorkerHooks<Data = unknown, Result = unknown> {
  /** The handler is called next. */
  claimed?: ((task: Task<Data, Result>) => unknown) | undefined;
  /** The handler succeeded, and its result is stored. In a verified queue, the verdict follows. */
  done?: ((task: Task<Data, Result>, result: Result) => unknown) | undefined;
  /** The attempt failed, and the task will be tried again. `error` is what the handler threw. */
  failed?: ((task: Task<Data, Result>, error: unknown) => unknown) | undefined;
  /** The task is dead: this was its last attempt, or it was rejected. */
  dead?: ((task: Task<Data, Result>, error: unknown) => unknown) | undefined;
}

const NAMES = ["claimed", "done", "failed", "dead"] as const;

export function checkHooks(hooks: unknown): void {
  checkNames(hooks as object, NAMES, "on");
  for (const name of NAMES) {
    const hook = (hooks as WorkerHooks)[name];
    if (hook !== undefined && typeof hook !== "function")
      throw invalid(`on.${name} must be a function; got ${show(hook)}.`);
  }
}

/** Calls a hook. A hook that throws, or returns a promise that rejects, is logged. */
export function callHook(name: keyof WorkerHooks, call: () => unknown, logger: Logger): void {
  const log = (error: unknown): void =>
    logger.error(`The hook on.${name} failed: ${(error as Error | undefined)?.message ?? show(error)}`);
  try {
    const returned = call();
    if (typeof (returned as PromiseLike<unknown> | undefined)?.then === "function")
      (returned as PromiseLike<unknown>).then(undefined, log);
  } catch (error) {
    log(error);
  }
}
