import type { Dibs } from "../api/dibs.ts";
import { describe, type TaskInfo } from "../api/task-handle.ts";
import { invalid } from "../core/errors/errors.ts";
import type { Payloads } from "../core/answer/preview.ts";
import { show } from "../core/errors/show.ts";
import type { Headers, TaskState } from "../core/task/task.ts";
import type { ListQuery } from "../core/answer/page.ts";

/**
 * `dibs tasks`: a page of the tasks of a queue in several states that match what is searched for. The store lists the
 * tasks of one state, finds keys, compares groups and headers, and filters dead letters by their error. Everything else
 * is compared here, page by page, so that a search needs little memory.
 */
export interface Search {
  queue: string;
  states: readonly TaskState[];
  /** Created at least this long ago, in milliseconds; at most this long ago. */
  olderThan?: number | undefined;
  newerThan?: number | undefined;
  /** The idempotencyKey, or the key of `unique`. */
  key?: string | undefined;
  group?: string | undefined;
  header?: Headers | undefined;
  /** A part of the last error's name or message; case does not matter. */
  error?: string | undefined;
  limit: number;
  /** Where the page before ended. */
  after?: string | undefined;
  payloads?: Payloads;
}

export interface Found {
  tasks: TaskInfo[];
  next: string | null;
}

/** A search that compares reads pages of this size. */
const PAGE = 500;

export async function findTasks(dibs: Dibs, search: Search): Promise<Found> {
  if (search.key !== undefined) return { tasks: await findByKey(dibs, search, search.key), next: null };
  const tasks: TaskInfo[] = [];
  let next: string | null = null;
  for await (const { task, cursor } of matchesOf(dibs, search)) {
    // One more than the page was found: there is a page after it.
    if (tasks.length === search.limit) return { tasks, next };
    tasks.push(task);
    if (tasks.length === search.limit) next = await cursor();
  }
  return { tasks, next: null };
}

/** The store finds keys by an index: at most one idempotency key, and one of `unique`. */
async function findByKey(dibs: Dibs, search: Search, key: string): Promise<TaskInfo[]> {
  const { queue, states, payloads, group, header = {} } = search;
  const found: TaskInfo[] = [];
  for (const match of [{ idempotencyKey: key }, { uniqueKey: key }])
    found.push(...(await dibs.port.list({ queue, match, limit: 1, payloads })).tasks.map(describe));
  const isMeant = await Promise.all(found.map((task) => matches(dibs, task, search)));
  return found.filter(
    (task, at) =>
      isMeant[at] &&
      states.includes(task.state) &&
      (group === undefined || task.groupKey === group) &&
      Object.entries(header).every(([name, value]) => task.headers[name] === value),
  );
}

/** Each match, with a function for the cursor that continues after it. */
async function* matchesOf(
  dibs: Dibs,
  search: Search,
): AsyncGenerator<{ task: TaskInfo; cursor: () => Promise<string | null> }> {
  const { states, limit } = search;
  const from = parseCursor(search);
  for (const state of states.slice(states.indexOf(from.state))) {
    let after = state === from.state ? from.after : undefined;
    do {
      const query = queryOf(
        search,
        state,
        after,
        isCompared(search, state) ? PAGE : Math.min(limit + 1, PAGE),
      );
      const page = await dibs.port.list(query);
      for (const [index, record] of page.tasks.entries()) {
        const task = describe(record);
        if (!(await matches(dibs, task, search))) continue;
        const cursor = async (): Promise<string | null> => {
          const isLast = index === page.tasks.length - 1;
          const next = isLast ? page.next : (await dibs.port.list({ ...query, limit: index + 1 })).next;
          return cursorAfter(states, state, next);
        };
        yield { task, cursor };
      }
      after = page.next ?? undefined;
    } while (after !== undefined);
  }
}

function queryOf(search: Search, state: TaskState, after: string | undefined, limit: number): ListQuery {
  const { queue, error, group, header, payloads = "preview" } = search;
  const match = {
    ...(group !== undefined && { groupKey: group }),
    ...(header !== undefined && { headers: header }),
  };
  const isMatched = Object.keys(match).length > 0;
  const filter = !isMatched && state === "dead" && error !== undefined ? { filter: { error } } : {};
  return { queue, state, limit, payloads, after, ...(isMatched && { match }), ...filter };
}

function isCompared({ olderThan, newerThan, error }: Search, state: TaskState): boolean {
  const isErrorCompared = error !== undefined && state !== "dead";
  return olderThan !== undefined || newerThan !== undefined || isErrorCompared;
}

async function matches(dibs: Dibs, task: TaskInfo, search: Search): Promise<boolean> {
  const { olderThan = 0, newerThan = Infinity, error } = search;
  const age = dibs.port.clock.read().wall - task.createdAt.getTime();
  if (age < olderThan || age > newerThan) return false;
  if (error === undefined) return true;
  const says = (last: { name: string; message: string }): boolean =>
    `${last.name}: ${last.message}`.toLowerCase().includes(error.toLowerCase());
  if (task.error) return says(task.error);
  // Only a task that has failed has an error, which is in its ledger.
  if (task.attempt < 2) return false;
  const last = (await dibs.task(task.id).history()).findLast((attempt) => attempt.error !== null)?.error;
  return !!last && says(last);
}

function cursorAfter(states: readonly TaskState[], state: TaskState, next: string | null): string | null {
  if (next !== null) return `${state}:${next}`;
  const following = states[states.indexOf(state) + 1];
  return following === undefined ? null : `${following}:`;
}

function parseCursor({ states, after }: Search): { state: TaskState; after?: string } {
  if (after === undefined) return { state: states[0]! };
  const at = after.indexOf(":");
  const state = states.find((each) => each === after.slice(0, at));
  if (state === undefined)
    throw invalid(
      `--after takes the cursor that the page before printed, with the same states; got ${show(after)}.`,
    );
  const rest = after.slice(at + 1);
  return rest === "" ? { state } : { state, after: rest };
}
