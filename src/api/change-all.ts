import { type BulkChange, type BulkProgress, changeAll } from "../core/task/change-all.ts";
import { invalid } from "../core/errors/errors.ts";
import { checkBoolean, checkNames, checkNumber, checkObject } from "../core/input/options.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import type { TaskMatch } from "../core/task/task-match.ts";
import { END_STATES, type Headers, PENDING_STATES, type TaskState } from "../core/task/task.ts";
import { parseUpdate, type UpdateOptions } from "./task-handle.ts";

/** `queue.changeAll()`, and the options that select tasks in it and in `queue.tasks()`. */

/** Which tasks. All given fields must match. */
export interface MatchOptions {
  /** The task that has this key now: at most one. */
  idempotencyKey?: string | undefined;
  /** The task that has this key of `unique` now: at most one. */
  uniqueKey?: string | undefined;
  groupKey?: string | undefined;
  /** All of these headers, with these values. */
  headers?: Headers | undefined;
}

export const MATCH_NAMES = ["idempotencyKey", "uniqueKey", "groupKey", "headers"] as const;

/** The search that the options describe; undefined if they describe none. */
export function parseMatch(options: MatchOptions): TaskMatch | undefined {
  const given = MATCH_NAMES.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]]));
  return given.length === 0 ? undefined : (Object.fromEntries(given) as TaskMatch);
}

const STATES: readonly string[] = [...PENDING_STATES, ...END_STATES];

export function checkState(state: TaskState): TaskState {
  if (!STATES.includes(state))
    throw invalid(`state must be one of ${STATES.join(", ")}; got ${show(state)}.`);
  return state;
}

export interface ChangeAllOptions extends MatchOptions {
  /**
   * Only tasks in these states. Default: for `"cancel"` all that have not ended, for `"promote"` scheduled, for an
   * update ready, waiting and scheduled. `"runAgain"` requires it.
   */
  state?: TaskState | TaskState[] | undefined;
  /** At most this many are changed. */
  limit?: number | undefined;
  /** Counts what would be changed, and changes nothing. */
  dryRun?: boolean | undefined;
  /** Called after each batch. */
  onProgress?: ((progress: BulkProgress) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** What to do with every task: cancel, promote or run it again, or change these fields. */
export type AllChange = "cancel" | "promote" | "runAgain" | UpdateOptions;

const DEFAULT_STATES = {
  cancel: PENDING_STATES,
  promote: ["scheduled"],
  update: ["scheduled", "waiting", "ready"],
} as const;

export async function changeAllOf(
  { port, queue, encode }: { port: Port; queue: string; encode: (data: unknown) => string | Promise<string> },
  wanted: AllChange,
  options: ChangeAllOptions,
): Promise<BulkProgress> {
  checkObject(options, "The options of changeAll");
  const names = ["state", "limit", "dryRun", "onProgress", "signal", ...MATCH_NAMES];
  checkNames(options, names, "changeAll");
  const { limit = Number.MAX_SAFE_INTEGER, dryRun = false, onProgress, signal } = options;
  checkNumber(limit, "limit", 1, Number.MAX_SAFE_INTEGER);
  checkBoolean(dryRun, "dryRun");
  const changeNow = await changeFrom(wanted, encode, () => port.clock.read().wall);
  return changeAll(port, queue, changeNow, {
    ...{ states: statesOf(changeNow(), options.state), match: parseMatch(options) ?? {} },
    ...{ limit, dryRun, onProgress, signal },
  });
}

function statesOf({ kind }: BulkChange, given: ChangeAllOptions["state"]): readonly TaskState[] {
  if (given !== undefined) return [given].flat().map(checkState);
  if (kind === "again") throw invalid('changeAll("runAgain") needs the state of the tasks, such as "done".');
  return DEFAULT_STATES[kind];
}

async function changeFrom(
  wanted: AllChange,
  encode: (data: unknown) => string | Promise<string>,
  now: () => number,
): Promise<() => BulkChange> {
  if (wanted === "cancel" || wanted === "promote") return () => ({ kind: wanted });
  if (wanted === "runAgain") return () => ({ kind: "again" });
  if (typeof wanted !== "object" || wanted === null)
    throw invalid(
      `changeAll() takes "cancel", "promote", "runAgain" or the fields to change first; got ${show(wanted)}.`,
    );
  const { data } = parseUpdate(wanted, now);
  const encoded = data === undefined ? {} : { data: await encode(data) };
  return () => {
    const { data: _, ...rest } = parseUpdate(wanted, now);
    return { ...rest, ...encoded };
  };
}
