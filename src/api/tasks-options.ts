import { invalid } from "../core/errors/errors.ts";
import { checkNames, checkNumber, checkObject } from "../core/input/options.ts";
import type { ListQuery } from "../core/answer/page.ts";
import type { Payloads } from "../core/answer/preview.ts";
import type { TaskState } from "../core/task/task.ts";
import { checkState, MATCH_NAMES, type MatchOptions, parseMatch } from "./change-all.ts";
import type { TaskInfo } from "./task-handle.ts";

/** What `queue.tasks()` takes and returns. */

export interface TasksOptions extends MatchOptions {
  /** Default: all states, if the options contain a search. */
  state?: TaskState | undefined;
  after?: string | undefined;
  limit?: number | undefined;
  payloads?: Payloads | undefined;
}

export interface TasksPage {
  tasks: TaskInfo[];
  next: string | null;
  /** How many tasks were compared for this page, if something was searched for. */
  searched?: number;
}

/** The query as the port expects it. */
export function parseTasksOptions(options: TasksOptions): Omit<ListQuery, "queue"> {
  checkObject(options, "The options of tasks");
  checkNames(options, ["state", "after", "limit", "payloads", ...MATCH_NAMES], "tasks");
  const { state, after, limit = 50, payloads } = options;
  const match = parseMatch(options);
  if (state !== undefined) checkState(state);
  else if (!match) throw invalid("tasks() needs a state, or what to search for: a key, a group or headers.");
  checkNumber(limit, "limit", 1, 1_000);
  return { state, match, after, limit, payloads };
}
