import type { Attempt } from "../task/task.ts";

/**
 * What a handler wrote with `task.log()`: lines that are stored with their attempt. All engines use it. A task keeps its
 * last LIMITS.logLines lines, of all attempts together, so that a task that is retried for days stays bounded.
 */
export interface LogLine {
  at: number;
  text: string;
}

/** A line in the store: the fence tells its attempt. */
export interface StoredLine extends LogLine {
  fence: number;
}

/** Gives each attempt its lines. Attempts without lines stay as they are. */
export function withLines(attempts: readonly Attempt[], lines: readonly StoredLine[]): Attempt[] {
  const byFence = Map.groupBy(lines, ({ fence }) => fence);
  return attempts.map((attempt) => {
    const log = byFence.get(attempt.fence);
    return log ? { ...attempt, log: log.map(lineFrom) } : attempt;
  });
}

/** Of the attempt in progress: only if it has written some. */
export function linesOf(fence: number, lines: readonly StoredLine[]): { log?: LogLine[] } {
  const log = lines.filter((line) => line.fence === fence).map(lineFrom);
  return log.length > 0 ? { log } : {};
}

function lineFrom({ at, text }: StoredLine): LogLine {
  return { at, text };
}
