import { type Duration, LONGEST_MS, parseDuration } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import type { Payload } from "../core/json-type.ts";
import { checkNames, checkObject } from "../core/options.ts";
import { show } from "../core/show.ts";
import type { Headers, NewTask } from "../core/task.ts";

export interface AddOptions {
  /** Higher first; 0 unless set, from -1000 to 1000. */
  priority?: number | undefined;
  /** Not before this long from now. */
  delay?: Duration | undefined;
  /** Not before this moment; in place of `delay`. */
  runAt?: Date | undefined;
  /** Tasks of a queue that share it run in order, one at a time. */
  groupKey?: string | undefined;
  /** The same key returns the same task, until 24 h after its end. */
  idempotencyKey?: string | undefined;
  /** If no worker has started it by then, it expires. */
  ttl?: Duration | undefined;
  headers?: Headers | undefined;
  /** In place of the queue's. */
  maxAttempts?: number | undefined;
  /** What it takes of rate limits that have a unit, such as tokens; 1 unless set. */
  cost?: number | undefined;
  /** Before all others, and outside of its queue's window too. */
  urgent?: boolean | undefined;
  /** A transaction of the caller's own, where the store can share one. */
  tx?: unknown;
}

/** Of what is added later, or with others: the transaction is not its own. */
export type PartOptions = Omit<AddOptions, "tx">;

/** One of several that are added together. */
export type Item<In> = { data: Payload<In> } & PartOptions;

export interface AddManyOptions {
  /** A transaction of the caller's own that adds all of them, where the store can share one. */
  tx?: unknown;
}

export function checkManyOptions(options: AddManyOptions): void {
  checkObject(options, "The options of addMany");
  checkNames(options, ["tx"], "addMany");
}

/** The transaction is the batch's, or that of the ack which it is added with. */
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
  "ttl",
  "headers",
  "maxAttempts",
  "cost",
  "urgent",
  "tx",
] as const satisfies (keyof AddOptions)[];

/** `now` is the caller's own calendar: what crosses to the store is how long from now, so its error cancels out. */
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
    ...(headers !== undefined && { headers }),
    ...(maxAttempts !== undefined && { maxAttempts }),
    ...(cost !== undefined && { cost }),
    ...(urgent !== undefined && { urgent }),
    ...(delay !== undefined && { delay }),
    ...(options.ttl !== undefined && { ttl: parseDuration(options.ttl, "ttl", 1) }),
  };
}

function parseDelay({ delay, runAt }: AddOptions, now: () => number): number | undefined {
  if (runAt === undefined) return delay === undefined ? undefined : parseDuration(delay, "delay");
  if (delay !== undefined) throw invalid("Give delay or runAt, not both.");
  if (!(runAt instanceof Date) || Number.isNaN(runAt.getTime())) {
    throw invalid(`runAt must be a valid Date; got ${show(runAt)}.`);
  }
  const ahead = Math.max(0, runAt.getTime() - now());
  if (ahead > LONGEST_MS) throw invalid(`runAt must be within 3650 days; got ${show(runAt)}.`);
  return ahead;
}
