import { checkCount } from "./arguments.ts";
import { type Duration, parseDuration } from "./duration.ts";
import { invalid } from "./errors.ts";
import { checkNames } from "./options.ts";
import { show } from "./show.ts";

/**
 * Thrown by a handler to say how its failure should be treated. They are known by `code`, not by
 * `instanceof`: a handler may have been bundled with another copy of this file.
 */

/**
 * Fail this attempt, and try again after `delay` in place of the queue's backoff. With `key: true` somebody else's limit was
 * met: no attempt is used up, and for that long no task of the same groupKey starts; of the queue, where it has none.
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
    `Retry's key must be true or false; got ${show(key)}. With true the groupKey that the task was added with is held back.`,
  );
}

/** Trying again is useless: straight to the dead letters. */
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

/** A thrown Retry asks for its whole key to be held back. */
export function isKeyHold(error: unknown): boolean {
  const retry = error as { code?: unknown; key?: unknown } | null | undefined;
  return retry?.code === "RETRY" && retry.key === true;
}

/** The delay a thrown Retry asks for; undefined where the queue's backoff decides. */
export function requestedDelay(error: unknown): number | undefined {
  const retry = error as { code?: unknown; delay?: unknown } | null | undefined;
  if (retry?.code !== "RETRY" || retry.delay === undefined) return undefined;
  try {
    return parseDuration(retry.delay, "Retry's delay");
  } catch {
    // Made elsewhere, and wrong: the failure counts more than its wish.
    return undefined;
  }
}
