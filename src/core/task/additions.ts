import type { NewChild } from "../handler/children.ts";
import { LONGEST_MS } from "../time/duration.ts";
import { invalid, isDibsError } from "../errors/errors.ts";
import { byteLength, isLarger, LIMITS } from "../input/limits.ts";
import { checkBoolean, checkNumber, checkObject, checkText } from "../input/options.ts";
import { MOST_ATTEMPTS } from "../queue/policy.ts";
import { checkQueueName } from "../queue/queue-name.ts";
import { checkRunStart } from "../run/run.ts";
import { show } from "../errors/show.ts";
import type { Addition, NewMessage, NewTask } from "./task.ts";
import { checkTopic } from "../topic/topic.ts";
import { checkUnique } from "./unique.ts";

/**
 * Checks of new tasks and messages. The broker calls them for every door and the library, before anything reaches an
 * engine. A claim calls them for each task that a handler adds: the broker sees those only when the handler has ended.
 */

export function checkTasks(tasks: NewTask[]): void {
  checkEach(tasks, checkTask);
}

/** What an ack adds: tasks, and messages to topics. */
export function checkAdditions(additions: Addition[]): void {
  checkEach(additions, checkAddition);
}

export function checkAddition(addition: Addition): void {
  checkObject(addition, "A task");
  if ("topic" in addition) checkMessage(addition);
  else checkTask(addition);
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
function named<T>(prefix: string | (() => string), check: () => T): T {
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
const CHILD_FIELDS: ReadonlySet<string> = new Set<keyof NewChild>(["name", "task"]);
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

/** A child is a task of its own: it cannot begin a run, nor take the place of another task. */
export function checkChildren(children: NewChild[]): void {
  if (!Array.isArray(children) || children.length === 0 || children.length > LIMITS.children)
    throw invalid(`A spawn takes 1 to ${LIMITS.children} children; got ${show(children)}.`);
  const names = new Set<string>();
  for (const child of children) {
    checkObject(child, "A child");
    checkFields(child, CHILD_FIELDS, "A child");
    const name = checkText(child.name, "A child's name", LIMITS.stepName);
    if (names.has(name))
      throw invalid(`Two children of one spawn have the name ${show(name)}. Give each its own, or none.`);
    names.add(name);
    named(
      () => `Child ${show(name)}: `,
      () => checkTask(child.task),
    );
    if (child.task.run !== undefined)
      throw invalid(
        `Child ${show(name)} would begin a run. Add runs with task.add(): a child is a single task.`,
      );
    if (child.task.unique !== undefined)
      throw invalid(`Child ${show(name)} is unique. A child is always a new task: leave \`unique\` out.`);
  }
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
