import type { TaskInfo } from "../api/task-handle.ts";
import { checkNames } from "../core/input/options.ts";

/** What a test expects of a task that was added. Objects match if they contain the given fields. */
export interface Added {
  data?: unknown;
  headers?: Record<string, string> | undefined;
  priority?: number | undefined;
  groupKey?: string | undefined;
  idempotencyKey?: string | undefined;
}

const NAMES = ["data", "headers", "priority", "groupKey", "idempotencyKey"] as const;

export function matches(task: TaskInfo, match: Added): boolean {
  checkNames(match, NAMES, "task");
  return NAMES.every((name) => match[name] === undefined || contains(task[name], match[name]));
}

export function describeMatch(match: Added): string {
  return Object.keys(match).length === 0 ? "any data" : JSON.stringify(match);
}

function contains(value: unknown, part: unknown): boolean {
  if (typeof part !== "object" || part === null) return Object.is(value, part);
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(part) && (!Array.isArray(value) || value.length !== part.length)) return false;
  return Object.entries(part).every(([name, expected]) =>
    contains((value as Record<string, unknown>)[name], expected),
  );
}
