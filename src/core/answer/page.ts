import type { QueuePolicy } from "../queue/policy.ts";
import type { Payloads } from "./preview.ts";
import type { RunPart, RunRecord, RunState, Stage } from "../run/run.ts";
import type { TaskMatch } from "../task/task-match.ts";
import type { DeadFilter, QueueFigures, TaskRecord, TaskState } from "../task/task.ts";

/** Lists of the port come in pages: which page a caller asks for, and what a page contains. */

/** Which page of a list: `after` is the `next` of the previous page. */
export interface PageQuery {
  after?: string | undefined;
  /** LIMITS.page unless set. */
  limit?: number | undefined;
}

export interface QueuesQuery extends PageQuery {
  queue?: string | undefined;
  stats?: boolean | undefined;
}

/**
 * A page ends at its limit or at about 4 MiB, whichever comes first. `next` is not null if there may be more; a page
 * with `next` can have fewer items than its limit.
 */
export interface Paged<Item> {
  items: Item[];
  next: string | null;
}

/** A page of tasks, bounded as Paged is. */
export interface Page {
  tasks: TaskRecord[];
  next: string | null;
  /** With `match`: how many tasks were compared for this page. */
  searched?: number;
  /** With `match`: the store's time. */
  now?: number;
}

export interface QueueSummary {
  name: string;
  policy: QueuePolicy;
  paused: boolean;
  createdAt: number;
  /** Only if the query asks for it. */
  stats?: QueueFigures;
}
export interface ListQuery {
  queue: string;
  /** All states, one after the other, if absent. */
  state?: TaskState | undefined;
  /** Of dead tasks. */
  filter?: DeadFilter | undefined;
  /** Of tasks in any state. */
  match?: TaskMatch | undefined;
  after?: string | undefined;
  limit: number;
  /** `"full"`: complete payloads and results. Otherwise large ones are shortened and marked by `truncated`. */
  payloads?: Payloads | undefined;
}

export interface PipelineRecord {
  name: string;
  stages: Stage[];
}

export interface RunPage {
  run: RunRecord;
  /** In the order in which they were added. */
  parts: RunPart[];
  next: number | null;
}

export interface RunsQuery {
  pipeline: string;
  /** Only runs in this state. */
  state?: RunState | undefined;
  /** The `next` of the previous page. */
  after?: number | undefined;
  limit?: number | undefined;
}

/** `next` is not null if there is more. */
export interface RunsPage {
  runs: RunRecord[];
  next: number | null;
}
