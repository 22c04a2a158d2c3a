import { DibsError, invalid, isDibsError } from "../core/errors.ts";
import { byteLength, isLarger, LIMITS } from "../core/limits.ts";
import { checkBoolean, checkNames, checkNumber, checkObject, checkText } from "../core/options.ts";
import { LONGEST_MS } from "../core/duration.ts";
import { MOST_ATTEMPTS } from "../core/policy.ts";
import { checkQueueName } from "../core/queue-name.ts";
import { show } from "../core/show.ts";
import { isTaskId } from "../core/task-id.ts";
import { checkUnique } from "../core/unique.ts";
import { checkTopic } from "../core/topic.ts";
import type { PageQuery } from "../core/page.ts";
import { checkRunStart } from "../core/run.ts";
import type { PageRequest } from "../engine/engine.ts";
import type {
  Addition,
  Body,
  ClaimRef,
  DeadFilter,
  NewMessage,
  NewTask,
  PatternKey,
  TaskError,
} from "../core/task.ts";

/** Checks of the values that every door and the library pass, made once here before anything reaches an engine. */

export function checkTasks(tasks: NewTask[]): void {
  checkEach(tasks, checkTask);
}

/** What a success adds: tasks, and messages to topics. */
export function checkAdditions(additions: Addition[]): void {
  checkEach(additions, (addition) => {
    checkObject(addition, "A task");
    if ("topic" in addition) checkMessage(addition);
    else checkTask(addition);
  });
}

function checkEach<T>(tasks: T[], checkOne: (task: T) => void): void {
  if (!Array.isArray(tasks) || tasks.length === 0)
    throw invalid("Nothing to add: the batch is empty. Give at least one task.");
  if (tasks.length > LIMITS.addBatch) {
    throw invalid(`A batch takes at most ${LIMITS.addBatch} tasks; got ${tasks.length}. Split it.`);
  }
  if (tasks.length === 1) return checkOne(tasks[0]!);
  let index = 0;
  // Once for all: a closure and a text for each task would cost half as much as its check.
  const prefix = (): string => `Task ${index} of the batch: `;
  named(prefix, () => {
    for (; index < tasks.length; index++) checkOne(tasks[index]!);
  });
}

/** Adds to an error which part of a batch it is about. The whole batch is refused. */
export function named<T>(prefix: string | (() => string), check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (isDibsError(error)) error.message = (typeof prefix === "string" ? prefix : prefix()) + error.message;
    throw error;
  }
}

const CONTENT_FIELDS = [
  "data",
  "contentType",
  "headers",
  "priority",
  "delay",
  "groupKey",
  "idempotencyKey",
  "ttl",
  "maxAttempts",
  "cost",
  "urgent",
] as const satisfies (keyof NewTask & keyof NewMessage)[];
const TASK_FIELDS: ReadonlySet<string> = new Set<keyof NewTask>([
  "queue",
  ...CONTENT_FIELDS,
  "run",
  "unique",
]);
const MESSAGE_FIELDS: ReadonlySet<string> = new Set<keyof NewMessage>(["topic", ...CONTENT_FIELDS]);

/**
 * Refuses unknown fields. Engines add tasks with fields of their own: `at` makes a task a part of a run. A client that
 * sent it could add results to the runs of other clients.
 */
function checkFields(given: object, known: ReadonlySet<string>, what: string): void {
  for (const field in given)
    if (!known.has(field))
      throw invalid(`${what} has no field ${show(field)}. Known: ${[...known].join(", ")}.`);
}

function checkTask(task: NewTask): void {
  checkObject(task, "A task");
  checkFields(task, TASK_FIELDS, "A task");
  checkQueueName(task.queue);
  checkContent(task);
  if (task.unique !== undefined) checkUnique(task.unique, task);
  if (task.run !== undefined) checkRunStart(task.run, task);
}

export function checkMessage(message: NewMessage): void {
  checkObject(message, "A message");
  checkFields(message, MESSAGE_FIELDS, "A message");
  checkTopic(message.topic);
  checkContent(message);
}

function checkContent(task: Omit<Addition, "queue" | "topic">): void {
  checkBody(task.data, "A payload");
  if (task.priority !== undefined) checkNumber(task.priority, "priority", -LIMITS.priority, LIMITS.priority);
  if (task.delay !== undefined) checkNumber(task.delay, "delay", 0, LONGEST_MS);
  if (task.ttl !== undefined) checkNumber(task.ttl, "ttl", 1, LONGEST_MS);
  if (task.maxAttempts !== undefined) checkNumber(task.maxAttempts, "maxAttempts", 1, MOST_ATTEMPTS);
  if (task.cost !== undefined) checkNumber(task.cost, "cost", 0, LIMITS.cost);
  if (task.urgent !== undefined) checkBoolean(task.urgent, "urgent");
  if (task.groupKey !== undefined) checkText(task.groupKey, "groupKey", LIMITS.groupKey);
  if (task.idempotencyKey !== undefined)
    checkText(task.idempotencyKey, "idempotencyKey", LIMITS.idempotencyKey);
  if (task.contentType !== undefined) checkText(task.contentType, "contentType", 256);
  if (task.headers !== undefined) checkHeaders(task.headers);
}

export function checkBody(body: unknown, what: string): void {
  if (body instanceof Uint8Array) return;
  if (typeof body !== "string") throw invalid(`${what} is text or bytes; got ${show(body)}.`);
  if (!body.isWellFormed())
    throw invalid(`${what} that is text must be well-formed: it has half of a surrogate pair.`);
}

export function checkStepValue(value: Body | null, what: string): void {
  if (value === null) return;
  checkBody(value, what);
  if (isLarger(value, LIMITS.stepBytes)) {
    throw new DibsError(
      "PAYLOAD_TOO_LARGE",
      `${what} has ${byteLength(value)} bytes; at most ${LIMITS.stepBytes} are stored. Store large data elsewhere and pass a reference.`,
    );
  }
}

export function checkHeaders(headers: unknown): void {
  checkObject(headers, "headers");
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== "string") throw invalid(`Header ${show(name)} must be a text; got ${show(value)}.`);
  }
  // Text that is not well-formed is allowed: JSON escapes it, so it comes back unchanged.
  const json = JSON.stringify(headers);
  if (isLarger(json, LIMITS.headerBytes)) {
    throw invalid(
      `The headers of a task may have ${LIMITS.headerBytes} bytes as JSON; got ${byteLength(json)}. Put large values into the payload.`,
    );
  }
}

/** Milliseconds between two tasks. It may be a fraction: the engine rounds each due time. */
export function checkSpacing(spacing: unknown): number {
  if (typeof spacing !== "number" || !(spacing >= 0 && spacing <= LONGEST_MS)) {
    throw invalid(`The spacing of redriven tasks must be from 0 to ${LONGEST_MS} ms; got ${show(spacing)}.`);
  }
  return spacing;
}

export function checkTaskId(id: unknown): string {
  if (typeof id !== "string" || !isTaskId(id)) {
    throw invalid(`A task id looks like "01980000-0000-7000-8000-000000000000"; got ${show(id)}.`);
  }
  return id;
}

/** Without this check a missing fence would match a task without a claim. */
export function checkClaim({ id, fence }: ClaimRef): ClaimRef {
  return { id: checkTaskId(id), fence: checkNumber(fence, "fence", 0, Number.MAX_SAFE_INTEGER) };
}

export function checkFilter(filter: DeadFilter): DeadFilter {
  checkObject(filter, "The filter");
  checkNames(filter, ["ids", "pattern", "error"], "filter");
  if (filter.ids !== undefined) {
    if (!Array.isArray(filter.ids))
      throw invalid(`ids must be an array of task ids; got ${show(filter.ids)}.`);
    filter.ids.forEach(checkTaskId);
  }
  if (filter.pattern !== undefined) checkText(filter.pattern, "pattern", 1_024);
  if (filter.error !== undefined) checkText(filter.error, "error", 1_024);
  return filter;
}

/** `filter`: the option that selects from the list. */
export function checkPage(query: PageQuery, what: string, ...filters: string[]): PageRequest {
  checkNames(query, [...filters, "after", "limit"], what);
  const { after, limit = LIMITS.page } = query;
  return {
    limit: checkNumber(limit, "limit", 1, LIMITS.page),
    ...(after !== undefined && { after: checkText(after, "after", 1_024) }),
  };
}

export function checkPatternKey(by: unknown): PatternKey {
  if (by === "fingerprint" || by === "worker") return by;
  if (typeof by === "string" && by.startsWith("header:") && by.length <= LIMITS.headerBytes)
    return by as PatternKey;
  throw invalid(`Patterns are by "fingerprint", "worker" or "header:" and a name; got ${show(by)}.`);
}

/** Errors can have any size: what is stored of them is bounded. */
export function clipError(error: TaskError): TaskError {
  checkObject(error, "An error");
  const { stack } = error as { stack?: unknown };
  if (stack !== undefined && stack !== null && typeof stack !== "string")
    throw invalid(`An error's stack is a text, or null; got ${show(stack)}.`);
  if (typeof error.name !== "string" || typeof error.message !== "string") {
    throw invalid(
      `An error has a name and a message, both text; got ${show(error.name)} and ${show(error.message)}.`,
    );
  }
  return {
    name: error.name.slice(0, 256) || "Error",
    message: error.message.slice(0, LIMITS.errorMessage),
    stack: error.stack?.slice(0, LIMITS.errorStack) ?? null,
  };
}
