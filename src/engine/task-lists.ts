import { matchesTask, type TaskMatch } from "../core/task/task-match.ts";
import type { Headers, TaskState } from "../core/task/task.ts";
import { type SortKey, taskKeyTypes } from "./cursor.ts";

/** What `list` of both SQL engines has in common: the tables and orders of its pages, and which rows match a search. */

/** The tasks of a state, in the order of an index of their tables. */
export interface TaskList {
  tables: readonly string[];
  /** The columns of the order, after the queue. cursor.ts has their types. */
  by: readonly string[];
  only?: string;
}

/** The order of service (ready), due time, group (waiting), arrival (claimed, verifying) or end. */
export const TASK_LISTS: Record<Exclude<TaskState, "dead">, TaskList> = {
  ready: { tables: ["ready", "ready_elsewhere", "ready_sticky"], by: ["rank", "pos"] },
  scheduled: { tables: ["scheduled"], by: ["due", "task"], only: "signal IS NULL" },
  parked: { tables: ["scheduled"], by: ["due", "task"], only: "signal IS NOT NULL" },
  waiting: { tables: ["waiting"], by: ["group_key", "pos"] },
  claimed: { tables: ["claim"], by: ["task"] },
  verifying: { tables: ["verifying"], by: ["task"] },
  done: { tables: ["ended"], by: ["ended_at", "task"], only: "state = 'done'" },
  // The second condition is that of an index.
  cancelled: { tables: ["ended"], by: ["ended_at", "task"], only: "state = 'cancelled' AND state <> 'done'" },
  expired: { tables: ["ended"], by: ["ended_at", "task"], only: "state = 'expired' AND state <> 'done'" },
};

export type ListedState = keyof typeof TASK_LISTS;

/** Where a list begins: below all keys. */
export function firstKey(state: TaskState): SortKey {
  return taskKeyTypes(state).map((type) => (type === "number" ? Number.MIN_SAFE_INTEGER : ""));
}

/** A task of a page; `key` is its position in the order. */
export interface Listed {
  task: number;
  key: SortKey;
}

/** A row of a page: the task and the columns of the order. */
export type ListedRow = [task: number, ...key: SortKey];

/** The first rows of all tables of a list, in its order. */
export function mergeLists(tables: readonly ListedRow[][], limit: number): Listed[] {
  const rows = tables.flat();
  // Only the line has several tables, and its order is of numbers.
  if (tables.length > 1)
    rows.sort(([, a1, a2], [, b1, b2]) => (a1 as number) - (b1 as number) || (a2 as number) - (b2 as number));
  return rows.slice(0, limit).map(([task, ...key]) => ({ task, key }));
}

/** What a search compares. */
export interface ComparedRow {
  seq: number;
  group_key: string | null;
  headers: string | null;
}

export function matchingTasks(rows: readonly ComparedRow[], match: TaskMatch): Set<number> {
  const matching = rows.filter((row) => {
    const headers = row.headers === null ? {} : (JSON.parse(row.headers) as Headers);
    return matchesTask(match, { groupKey: row.group_key, headers });
  });
  return new Set(matching.map(({ seq }) => seq));
}
