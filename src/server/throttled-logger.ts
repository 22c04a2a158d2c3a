import type { Logger } from "../core/logger.ts";
import { escapeControls } from "../core/show.ts";

/** The same words are logged once in this time. */
const EVERY_MS = 10_000;
const MOST_REMEMBERED = 100;
/** Characters of a message: parts of it may come from a client. */
const LONGEST = 2_000;

/**
 * A logger for what clients can bring about: while a disk is full, every call fails with the same words, and a line for
 * each would fill what is left of it.
 */
export function throttleLogger(logger: Logger): Logger {
  const loggedAt = new Map<string, number>();
  const isNews = (message: string): boolean => {
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
      if (isNews(text)) log(text, details);
    };
  return {
    warn: throttled((message, details) => logger.warn(message, details)),
    error: throttled((message, details) => logger.error(message, details)),
  };
}
