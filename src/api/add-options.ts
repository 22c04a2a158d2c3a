import { type Duration, LONGEST_MS, parseDuration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import type { Payload } from "../core/input/json-type.ts";
import { checkNames, checkObject } from "../core/input/options.ts";
import { show } from "../core/errors/show.ts";
import type { Headers, NewTask } from "../core/task/task.ts";
import { parseUnique, type UniqueOptions } from "../core/task/unique.ts";

// What users pass to `add`, and its check. Queues, pipelines and schedules parse theirs here.

export interface AddOptions {
  /** Higher first; -1000 to 1000, default 0. */
  priority?: number | undefined;
  /** The task does not start before this time has passed. */
  delay?: Duration | undefined;
  /** The task does not start before this time; instead of `delay`. */
  runAt?: Date | undefined;
  /** Tasks of a queue with the same key run in order, one at a time. */
  groupKey?: string | undefined;
  /** The same key returns the same task, until 24 h after its end. */
  idempotencyKey?: string | undefined;
  /**
   * At most one task with this key at a time, instead of an idempotencyKey. `while`: until a worker starts it
   * (`"waiting"`), until it ends (`"pending"`, the default), or for a duration of up to a day. `on`: what happens to
   * the task that has the key: `"keep"` (the default), `"replace"` its payload, or `"debounce"`: replace, and begin its
   * delay again.
   */
  unique?: UniqueOptions | undefined;
  /** The task expires if no worker has started it by then. */
  ttl?: Duration | undefined;
  headers?: Headers | undefined;
  /** Overrides the queue's maxAttempts. */
  maxAttempts?: number | undefined;
  /** Its cost in rate limits with a unit, such as tokens; default 1. */
  cost?: number | undefined;
  /** Starts before all other tasks, and also outside its queue's window. */
  urgent?: boolean | undefined;
  /** PostgreSQL: the caller's transaction. */
  tx?: unknown;
}

/** The options of a task that is added with others or later: it shares their transaction. */
export type PartOptions = Omit<AddOptions, "tx">;

/** The options of a child: `task.spawn` stores it under its parent's claim, and never returns another task. */
export type SpawnOptions = Omit<AddOptions, "tx" | "unique">;

/** One of several tasks that are added together. */
export type Item<In> = { data: Payload<In> } & PartOptions;

export interface AddManyOptions {
  /** PostgreSQL: the caller's transaction, for all of the tasks. */
  tx?: unknown;
}

export function checkManyOptions(options: AddManyOptions): void {
  checkObject(options, "The options of addMany");
  checkNames(options, ["tx"], "addMany");
}

/** Refuses `tx` for a task that shares the transaction of its batch or of the ack. */
export function refuseTx(options: AddOptions | undefined, instead: string): void {
  if (options?.tx === undefined) return;
  throw invalid(`tx cannot be given here: ${instead}.`);
}

export const TX_OF_MANY = "all tasks of a batch share one transaction, as in addMany(items, { tx })";
export const TX_OF_ACK = "what a handler adds commits with its ack, as in task.ack(result, { tx })";

const NAMES = [
  "priority",
  "delay",
  "runAt",
  "groupKey",
  "idempotencyKey",
  "unique",
  "ttl",
  "headers",
  "maxAttempts",
  "cost",
  "urgent",
  "tx",
] as const satisfies (keyof AddOptions)[];

/**
 * `now` is the caller's wall clock. Only the difference is sent to the store, so an error of that clock cancels out.
 */
export function parseAddOptions(
  options: AddOptions,
  now: () => number,
  verb = "add",
): Omit<NewTask, "queue" | "data"> {
  checkObject(options, `The options of ${verb}`);
  checkNames(options, NAMES, verb);
  const { priority, groupKey, idempotencyKey, headers, maxAttempts, cost, urgent } = options;
  const delay = parseDelay(options, now);
  return {
    ...(priority !== undefined && { priority }),
    ...(groupKey !== undefined && { groupKey }),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    ...(options.unique !== undefined && { unique: parseUnique(options.unique) }),
    ...(headers !== undefined && { headers }),
    ...(maxAttempts !== undefined && { maxAttempts }),
    ...(cost !== undefined && { cost }),
    ...(urgent !== undefined && { urgent }),
    ...(delay !== undefined && { delay }),
    ...(options.ttl !== undefined && { ttl: parseDuration(options.ttl, "ttl", 1) }),
  };
}

export function parseDelay(
  { delay, runAt }: Pick<AddOptions, "delay" | "runAt">,
  now: () => number,
): number | undefined {
  if (runAt === undefined) return delay === undefined ? undefined : parseDuration(delay, "delay");
  if (delay !== undefined) throw invalid("Give delay or runAt, not both.");
  if (!(runAt instanceof Date) || Number.isNaN(runAt.getTime())) {
    throw invalid(`runAt must be a valid Date; got ${show(runAt)}.`);
  }
  const ahead = Math.max(0, runAt.getTime() - now());
  if (ahead > LONGEST_MS) throw invalid(`runAt must be within 3650 days; got ${show(runAt)}.`);
  return ahead;
}
