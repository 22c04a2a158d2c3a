import { sizeOfTask } from "../core/answer/answer-size.ts";
import { invalid } from "../core/errors/errors.ts";
import { LIMITS } from "../core/input/limits.ts";
import { checkNames, checkNumber, checkObject, checkText } from "../core/input/options.ts";
import type { ListQuery, Page } from "../core/answer/page.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import { show } from "../core/errors/show.ts";
import type { TaskMatch } from "../core/task/task-match.ts";
import { END_STATES, PENDING_STATES, type TaskRecord, type TaskState } from "../core/task/task.ts";
import { BOUNDS } from "../engine/bounds.ts";
import type { ListRequest } from "../engine/engine.ts";
import { checkHeaders } from "../core/task/additions.ts";
import { checkFilter } from "./check.ts";
import type { Context } from "./context.ts";

/** Lists of tasks: of one state, or of all states one after the other. */

const STATES: readonly TaskState[] = [...PENDING_STATES, ...END_STATES];

export async function list(context: Context, query: ListQuery): Promise<Page> {
  const { state, ...request } = checkQuery(query);
  if (state !== undefined) return context.run({ verb: "list", state, ...request });
  return listAllStates(context, request);
}

type Request = Omit<ListRequest, "state">;

/** A page may have tasks of several states. Its cursor has the state in front. */
async function listAllStates(context: Context, request: Request): Promise<Page> {
  let { state, after } = parseCursor(request.after);
  const tasks: TaskRecord[] = [];
  let [bytes, searched, now] = [0, 0, 0];
  for (;;) {
    const { after: _, ...rest } = request;
    const part = { ...rest, limit: request.limit - tasks.length, ...(after !== undefined && { after }) };
    const page: Page = await context.run({ verb: "list", state, ...part });
    tasks.push(...page.tasks);
    bytes += page.tasks.reduce((sum, task) => sum + sizeOfTask(task), 0);
    searched += page.searched ?? 0;
    now = page.now ?? 0;
    const next = cursorAfter(state, page.next);
    const isFull =
      tasks.length >= request.limit || bytes >= LIMITS.answerBytes / 2 || searched >= BOUNDS.search;
    if (next === null || isFull) return { tasks, next, ...(request.match && { searched, now }) };
    ({ state, after } = parseCursor(next));
  }
}

function cursorAfter(state: TaskState, next: string | null): string | null {
  if (next !== null) return `${state}:${next}`;
  const following = STATES[STATES.indexOf(state) + 1];
  return following === undefined ? null : `${following}:`;
}

function parseCursor(after: string | undefined): { state: TaskState; after: string | undefined } {
  if (after === undefined) return { state: STATES[0]!, after };
  const at = after.indexOf(":");
  const state = STATES.find((each) => each === after.slice(0, at));
  if (state === undefined)
    throw invalid(`after must be the \`next\` of the page before; got ${show(after)}.`);
  return { state, after: after.slice(at + 1) || undefined };
}

function checkQuery(query: ListQuery): Request & { state?: TaskState | undefined } {
  const { queue, state, filter, match, after, limit, payloads } = query;
  if (state !== undefined && !STATES.includes(state))
    throw invalid(`state must be one of ${STATES.join(", ")}; got ${show(state)}.`);
  if (filter !== undefined && state !== "dead")
    throw invalid(`Only dead tasks can be filtered by error or pattern; got state ${show(state)}.`);
  if (filter !== undefined && match !== undefined) throw invalid("Give filter or match, not both.");
  if (after !== undefined) checkText(after, "after", 1_024);
  if (payloads !== undefined && payloads !== "preview" && payloads !== "full")
    throw invalid(`payloads must be "preview" or "full"; got ${show(payloads)}.`);
  return {
    queue: checkQueueName(queue),
    state,
    limit: checkNumber(limit, "limit", 1, LIMITS.page),
    ...(filter && { filter: checkFilter(filter) }),
    ...(match && { match: checkMatch(match) }),
    ...(after !== undefined && { after }),
    ...(payloads !== undefined && { payloads }),
  };
}

function checkMatch(match: TaskMatch): TaskMatch {
  checkObject(match, "match");
  checkNames(match, ["idempotencyKey", "uniqueKey", "groupKey", "headers"], "match");
  const { idempotencyKey, uniqueKey, groupKey, headers } = match;
  if (idempotencyKey !== undefined && uniqueKey !== undefined)
    throw invalid("Give idempotencyKey or uniqueKey, not both: a task has one key.");
  if (idempotencyKey !== undefined) checkText(idempotencyKey, "idempotencyKey", LIMITS.idempotencyKey);
  if (uniqueKey !== undefined) checkText(uniqueKey, "uniqueKey", LIMITS.idempotencyKey);
  if (groupKey !== undefined) checkText(groupKey, "groupKey", LIMITS.groupKey);
  if (headers !== undefined) checkHeaders(headers);
  return match;
}
