import { isChildFailure } from "../core/handler/child-failed.ts";
import { isKeyHold, isReject, requestedDelay } from "../core/handler/control.ts";
import { isDibsError } from "../core/errors/errors.ts";
import { timeoutError } from "../core/errors/attempt-errors.ts";
import type { SettleCall } from "../core/task/claim-call.ts";
import { describeError } from "../core/errors/task-error.ts";
import type { Held } from "./held.ts";
import type { Task } from "./task.ts";

/** Calls a handler and settles its task, for runner.ts. */

/** What the handler returned or threw. */
export type Answer = { returned: unknown } | { threw: unknown };

/** What settling needs from its worker. */
export interface Settling {
  now(): number;
  pause(ms: number): Promise<void>;
  warn(message: string): void;
  /** A settlement is being retried; called with false when that ends. */
  onTrouble(isTrouble: boolean): void;
}

/**
 * Acks without the extra promises of the general path: nearly every task ends this way. Undefined if the general path
 * is needed.
 */
export function ackAtOnce(held: Held, answer: Answer): Promise<void> | undefined {
  const task = held.task!;
  if (!("returned" in answer) || held.fate !== "working" || task.isSettled || task.isAckedInTransaction)
    return undefined;
  // The task is parked, whatever its handler returned.
  if (task.waiting) return undefined;
  try {
    return task.ackAs(answer.returned);
  } catch {
    // `settle` gets the same error again and handles it.
    return undefined;
  }
}

/**
 * Settles one task in the store, and retries while that still makes sense. `failure` is the error of an earlier
 * `ackAtOnce`.
 */
export async function settle(
  settling: Settling,
  held: Held,
  given: Answer,
  failure?: { error: unknown },
): Promise<void> {
  const task = held.task!;
  if (held.fate === "lost") return;
  const heard = task.isSettled ? await answerAfter(task, given) : given;
  if (task.isSettled && held.fate !== "timedOut") return;
  const isAcked = task.isAckedInTransaction && "returned" in heard && held.fate !== "timedOut";
  if (isAcked && (await task.isGone())) return task.observeAckInTransaction();
  // The handler's transaction is not committed, so the attempt has failed. If the transaction is still open, the store
  // lets this settlement wait for its end, and a commit wins.
  const answer: Answer = isAcked ? { threw: notCommitted() } : heard;
  const isReturned = "returned" in answer && held.fate !== "timedOut" && !task.waiting;
  const send = (): Promise<void> =>
    isReturned
      ? task.ackAs(answer.returned)
      : task.settleAs(settleCallFor(held, answer), thrownOf(held, answer));
  try {
    if (failure) throw failure.error;
    await send();
  } catch (error) {
    settling.onTrouble(true);
    try {
      const refusal = await repeat(settling, held, error, send);
      if (refusal === undefined) return;
      // The store refused the result, or a task that the ack adds: the attempt has failed.
      const fail = () => task.settleAs({ kind: "nack", error: describeError(refusal) }, refusal);
      await repeat(settling, held, RETRY_AT_ONCE, fail);
    } finally {
      settling.onTrouble(false);
    }
  }
}

/**
 * The handler has settled the task itself, possibly without awaiting it. If that settlement failed, so did the attempt.
 */
async function answerAfter(task: Task, answer: Answer): Promise<Answer> {
  try {
    await task.settlement;
    return answer;
  } catch (threw) {
    return { threw };
  }
}

function notCommitted(): Error {
  return new Error(
    "The handler returned, but the transaction of its task.ack(result, { tx }) was not committed. Commit it first, or throw.",
  );
}

/** What hooks get as the error. */
function thrownOf(held: Held, answer: Answer): unknown {
  if (held.fate === "timedOut") return timeoutError();
  return "threw" in answer ? answer.threw : undefined;
}

function settleCallFor(held: Held, answer: Answer): SettleCall {
  if (held.fate === "timedOut") return { kind: "nack", error: timeoutError(), outcome: "timeout" };
  const thrown = "threw" in answer ? answer.threw : undefined;
  const { waiting } = held.task!;
  if (waiting) return { kind: "park", ...waiting };
  // Another task of the batch waits for a signal: this one has not failed.
  if ((thrown as { code?: unknown } | undefined)?.code === "PARKED")
    return { kind: "release", started: true };
  // A handler that was asked to stop, and stops, has not failed. A release also ends a cancelled task.
  if (held.fate === "stopped" || held.fate === "cancelled") return { kind: "release", started: true };
  if (isReject(thrown) || isChildFailure(thrown)) return { kind: "reject", error: describeError(thrown) };
  const kind = isKeyHold(thrown) ? "hold" : "nack";
  return { kind, error: describeError(thrown), delay: requestedDelay(thrown) };
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
const RETRY_AT_ONCE = undefined;

/**
 * Retries a settlement that failed because the store did not work. Returns the error if the store refused it. Returns
 * undefined for a lost claim: the task belongs to another worker now, and nothing is left to do.
 */
async function repeat(
  settling: Settling,
  held: Held,
  failure: unknown,
  send: () => Promise<void>,
): Promise<unknown> {
  const start = settling.now();
  let error = failure;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    if (error !== RETRY_AT_ONCE) {
      const next = whatFollows(error, held.task!, settling.now() - start > held.policy.timeout);
      if (next !== "again") return next === "refused" ? error : undefined;
      settling.warn(`Could not settle task ${held.claimed.id}, trying again: ${(error as Error).message}`);
      await settling.pause(pause);
      if (held.fate === "lost") return undefined;
    }
    try {
      await send();
      return undefined;
    } catch (again) {
      error = again;
    }
  }
}

function whatFollows(error: unknown, task: Task, isLate: boolean): "again" | "refused" | "over" {
  if (isDibsError(error)) {
    if (error.code === "CLAIM_LOST" || error.code === "CLOSED") return "over";
    return !error.retryable || isLate ? "refused" : "again";
  }
  // A result that cannot be encoded is refused. A fault of the store says nothing about the result.
  if (error !== task.storeError) return "refused";
  return isLate ? "over" : "again";
}

/** Calls the handler. Calls `done` once: when the handler ends, or when its answer no longer matters. */
export function runHandler(held: Held[], run: () => unknown, done: (answer: Answer) => void): void {
  let returned: unknown;
  try {
    returned = run();
  } catch (threw) {
    return done({ threw });
  }
  // A synchronous handler costs no promise.
  if (typeof (returned as PromiseLike<unknown> | undefined)?.then !== "function") return done({ returned });
  let isOver = false;
  const end = (answer: Answer): void => {
    if (isOver) return;
    isOver = true;
    done(answer);
  };
  let waitedFor = held.length;
  for (const one of held) {
    one.stopWaiting = () => {
      if (--waitedFor === 0) end({ threw: new Error("The answer of this handler no longer matters.") });
    };
  }
  (returned as PromiseLike<unknown>).then(
    (value) => end({ returned: value }),
    (threw: unknown) => end({ threw }),
  );
}

/** The results of a batch, task by task: an array in the order of the tasks, or nothing. */
export function answersOfBatch(answer: Answer, tasks: Task[]): Answer[] {
  if ("threw" in answer) return tasks.map(() => answer);
  const { returned } = answer;
  if (returned === undefined) return tasks.map(() => ({ returned: undefined }));
  if (Array.isArray(returned) && returned.length === tasks.length)
    return returned.map((result) => ({ returned: result }));
  const threw = new TypeError(
    `A batch handler returns nothing, or an array with one result for each of its ${tasks.length} tasks; ` +
      `it returned ${Array.isArray(returned) ? `an array of ${returned.length}` : typeof returned}.`,
  );
  return tasks.map(() => ({ threw }));
}
