import { checkCount } from "../input/arguments.ts";
import { type Duration, parseDuration } from "../time/duration.ts";
import { invalid } from "../errors/errors.ts";
import { checkNames } from "../input/options.ts";
import { show } from "../errors/show.ts";

/**
 * What a handler throws to choose how its failure is treated. The worker recognises them by `code`, not by
 * `instanceof`: a handler may be bundled with another copy of this file.
 */

/**
 * Fails this attempt and retries after `delay` instead of the queue's backoff. With `key: true`, another system's limit
 * was met: the attempt does not count, and no task with the same groupKey starts during `delay`. Without a groupKey
 * this applies to the whole queue.
 */
export class Retry extends Error {
  readonly code = "RETRY";
  readonly delay: number | undefined;
  readonly key: boolean;

  constructor(message = "retry", options: { delay?: Duration; key?: boolean; cause?: unknown } = {}) {
    checkCount(arguments, "Retry(message, options)");
    checkNames(options, ["delay", "key", "cause"], "Retry");
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.delay = options.delay === undefined ? undefined : parseDuration(options.delay, "Retry's delay");
    this.key = parseKey(options.key ?? false);
  }

  override get name(): string {
    return "Retry";
  }
}

function parseKey(key: unknown): boolean {
  if (typeof key === "boolean") return key;
  throw invalid(
    `Retry's key must be true or false; got ${show(key)}. With true, the groupKey that the task was added with is held.`,
  );
}

/** Retrying is useless: the task goes straight to the dead letters. */
export class Reject extends Error {
  readonly code = "REJECT";

  constructor(message = "rejected", options: { cause?: unknown } = {}) {
    checkCount(arguments, "Reject(message, options)");
    checkNames(options, ["cause"], "Reject");
    super(message, "cause" in options ? { cause: options.cause } : undefined);
  }

  override get name(): string {
    return "Reject";
  }
}

export function isReject(error: unknown): boolean {
  return (error as { code?: unknown } | null | undefined)?.code === "REJECT";
}

/** The thrown Retry asks to hold its whole group or queue. */
export function isKeyHold(error: unknown): boolean {
  const retry = error as { code?: unknown; key?: unknown } | null | undefined;
  return retry?.code === "RETRY" && retry.key === true;
}

/** The delay that a thrown Retry asks for; undefined: the queue's backoff decides. */
export function requestedDelay(error: unknown): number | undefined {
  const retry = error as { code?: unknown; delay?: unknown } | null | undefined;
  if (retry?.code !== "RETRY" || retry.delay === undefined) return undefined;
  try {
    return parseDuration(retry.delay, "Retry's delay");
  } catch {
    // Created by other code, with an invalid delay. Recording the failure matters more than this delay.
    return undefined;
  }
}
