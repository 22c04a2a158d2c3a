import type { Logger } from "./logger.ts";
import { escapeControls } from "../errors/show.ts";

/** The same message is logged once in this time. */
const EVERY_MS = 10_000;
const MOST_REMEMBERED = 100;
/** Longest message in characters: parts of it may come from a client. */
const LONGEST = 2_000;

/**
 * A logger for events that clients can cause. While a disk is full, every call fails with the same message, and one
 * line for each would fill the rest of the disk.
 */
export function throttleLogger(logger: Logger): Logger {
  const loggedAt = new Map<string, number>();
  const isNew = (message: string): boolean => {
    const now = performance.now();
    if (now - (loggedAt.get(message) ?? Number.NEGATIVE_INFINITY) < EVERY_MS) return false;
    if (loggedAt.size >= MOST_REMEMBERED) loggedAt.clear();
    loggedAt.set(message, now);
    return true;
  };
  const throttled =
    (log: Logger["warn"]): Logger["warn"] =>
    (message, details) => {
      const text = escapeControls(message.length > LONGEST ? `${message.slice(0, LONGEST - 1)}…` : message);
      if (isNew(text)) log(text, details);
    };
  return {
    warn: throttled((message, details) => logger.warn(message, details)),
    error: throttled((message, details) => logger.error(message, details)),
  };
}
