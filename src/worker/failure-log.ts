import { showAttempt } from "../core/task/retry.ts";
import type { Clock } from "../core/time/clock.ts";
import type { Logger } from "../core/process/logger.ts";
import { escapeControls } from "../core/errors/show.ts";
import { describeError } from "../core/errors/task-error.ts";

/**
 * Logs the failures of tasks, for all workers of a process: each death, and attempts that fail again and again. A first
 * failure is not logged, because most tasks succeed on their second attempt.
 */

/** Which attempt of which task failed. */
export interface FailedAttempt {
  id: string;
  queue: string;
  attempt: number;
  maxAttempts: number;
}

/** In this time, a queue gets so many lines of a kind. Further failures are counted, and one line says how many. */
const WINDOW_MS = 10_000;
const MOST_LINES = { dead: 20, failed: 1 };
/** Most characters of an error's message: a line must stay a line. */
const LONGEST = 500;

type Kind = keyof typeof MOST_LINES;

interface Window {
  lines: number;
  /** Failures without a line. */
  more: number;
  stopTimer: () => void;
}

export class FailureLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #windows = new Map<string, { kind: Kind; queue: string; window: Window }>();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  dead(failed: FailedAttempt, error: unknown): void {
    if (this.#mayLog("dead", failed.queue))
      this.#logger.error(lineOf(failed, "and is now a dead letter", error));
  }

  failed(failed: FailedAttempt, error: unknown): void {
    if (failed.attempt === 1 || !this.#mayLog("failed", failed.queue)) return;
    this.#logger.warn(lineOf(failed, "and will be tried again", error));
  }

  /** Logs what was counted and not logged yet. */
  flush(): void {
    for (const key of [...this.#windows.keys()]) this.#end(key);
  }

  #mayLog(kind: Kind, queue: string): boolean {
    const key = `${kind} ${queue}`;
    let entry = this.#windows.get(key);
    if (!entry) {
      const stopTimer = this.#clock.after(WINDOW_MS, () => this.#end(key));
      this.#windows.set(key, (entry = { kind, queue, window: { lines: 0, more: 0, stopTimer } }));
    }
    const { window } = entry;
    if (window.lines < MOST_LINES[kind]) return ++window.lines > 0;
    window.more++;
    return false;
  }

  #end(key: string): void {
    const { kind, queue, window } = this.#windows.get(key)!;
    window.stopTimer();
    this.#windows.delete(key);
    if (window.more === 0) return;
    const seconds = WINDOW_MS / 1_000;
    if (kind === "dead")
      this.#logger.error(
        `${count(window.more, "more task")} of queue "${queue}" became dead letters within ${seconds} s.`,
      );
    else
      this.#logger.warn(
        `${count(window.more, "more attempt")} in queue "${queue}" failed within ${seconds} s.`,
      );
  }
}

function lineOf({ id, queue, attempt, maxAttempts }: FailedAttempt, fate: string, error: unknown): string {
  return `Task ${id} of queue "${queue}" failed on attempt ${showAttempt(attempt, maxAttempts)} ${fate}: ${oneLine(error)}`;
}

function oneLine(error: unknown): string {
  const { name, message } = describeError(error);
  const text = message === "" ? name : `${name}: ${message.split("\n", 1)[0]}`;
  return escapeControls(text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);
}

function count(n: number, what: string): string {
  return n === 1 ? `1 ${what}` : `${n} ${what}s`;
}
