import { isKeyHold, isReject, requestedDelay } from "../core/control.ts";
import { isDibsError } from "../core/errors.ts";
import { timeoutError } from "../core/attempt-errors.ts";
import type { SettleCall } from "../core/port.ts";
import { describeError } from "../core/task-error.ts";
import type { Held } from "./held.ts";
import type { Task } from "./task.ts";

/** What the handler did, or what was done to it. */
export type Answer = { returned: unknown } | { threw: unknown };

/** What settling needs of its worker. */
export interface Settling {
  now(): number;
  pause(ms: number): Promise<void>;
  warn(message: string): void;
  /** A settlement is being repeated; and then no longer. */
  onTrouble(isTrouble: boolean): void;
}

/** How nearly every task ends, without the promises that the other ways need; undefined for those. */
export function ackAtOnce(held: Held, answer: Answer): Promise<void> | undefined {
  const task = held.task!;
  if (!("returned" in answer) || held.fate !== "working" || task.isSettled || task.isAckedWithin)
    return undefined;
  // It is parked, whatever its handler returned.
  if (task.waiting) return undefined;
  try {
    return task.ackAs(answer.returned);
  } catch {
    // A result that cannot be stored is refused again by `settle`, which knows what to do then.
    return undefined;
  }
}

/**
 * Says to the store what became of one task, and does not give up while saying it still makes sense. `failure` is what
 * an `ackAtOnce` met.
 */
export async function settle(
  settling: Settling,
  held: Held,
  given: Answer,
  failure?: { error: unknown },
): Promise<void> {
  const task = held.task!;
  if (held.fate === "lost") return;
  const answer = task.isSettled ? await answerAfter(task, given) : given;
  if (task.isSettled && held.fate !== "timedOut") return;
  // One that was rolled back, and whose handler hides that, is not heard of again before its timeout.
  if (task.isAckedWithin && "returned" in answer && held.fate !== "timedOut") return;
  const isReturned = "returned" in answer && held.fate !== "timedOut" && !task.waiting;
  const send = (): Promise<void> =>
    isReturned ? task.ackAs(answer.returned) : task.settleAs(wordFor(held, answer));
  try {
    if (failure) throw failure.error;
    await send();
  } catch (error) {
    settling.onTrouble(true);
    try {
      const refusal = await repeat(settling, held, error, send);
      if (refusal === undefined) return;
      // The result, or what it adds, was not accepted: that is the attempt's failure.
      const fail = () => task.settleAs({ kind: "nack", error: describeError(refusal) });
      await repeat(settling, held, RETRY_AT_ONCE, fail);
    } finally {
      settling.onTrouble(false);
    }
  }
}

/** The handler settled it by itself, perhaps without waiting whether the store took it. If not, it has failed. */
async function answerAfter(task: Task, answer: Answer): Promise<Answer> {
  try {
    await task.settlement;
    return answer;
  } catch (threw) {
    return { threw };
  }
}

function wordFor(held: Held, answer: Answer): SettleCall {
  if (held.fate === "timedOut") return { kind: "nack", error: timeoutError(), outcome: "timeout" };
  const thrown = "threw" in answer ? answer.threw : undefined;
  const { waiting } = held.task!;
  if (waiting) return { kind: "park", ...waiting };
  // Another task of the batch waits for something: this one has not failed.
  if ((thrown as { code?: unknown } | undefined)?.code === "PARKED")
    return { kind: "release", started: true };
  // Who was asked to stop, and stops, has not failed. A cancelled task ends with that, also by a release.
  if (held.fate === "stopped" || held.fate === "cancelled") return { kind: "release", started: true };
  if (isReject(thrown)) return { kind: "reject", error: describeError(thrown) };
  const kind = isKeyHold(thrown) ? "hold" : "nack";
  return { kind, error: describeError(thrown), delay: requestedDelay(thrown) };
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
const RETRY_AT_ONCE = undefined;

/**
 * Repeats what failed for want of a working store. Returns the error of a refusal; a lost claim is none: that
 * the task is somebody else's now is the answer.
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
  // A result that cannot be encoded is refused. A fault in the store says nothing of the result.
  if (error !== task.setback) return "refused";
  return isLate ? "over" : "again";
}

/** Runs the handler until it answers, or until its answer no longer matters; then calls `done`, once. */
export function runHandler(held: Held[], run: () => unknown, done: (answer: Answer) => void): void {
  let returned: unknown;
  try {
    returned = run();
  } catch (threw) {
    return done({ threw });
  }
  // Handlers that are not asynchronous cost no promise.
  if (typeof (returned as PromiseLike<unknown> | undefined)?.then !== "function") return done({ returned });
  let isOver = false;
  const end = (answer: Answer): void => {
    if (isOver) return;
    isOver = true;
    done(answer);
  };
  let waitedFor = held.length;
  for (const one of held) {
    one.letGo = () => {
      if (--waitedFor === 0) end({ threw: new Error("Nobody waits for this handler any more.") });
    };
  }
  (returned as PromiseLike<unknown>).then(
    (value) => end({ returned: value }),
    (threw: unknown) => end({ threw }),
  );
}

/** A batch's results, task by task: those in the order of the tasks, or none. */
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
