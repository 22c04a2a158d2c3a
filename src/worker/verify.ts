import { isReject } from "../core/control.ts";
import { type ErrorCode, invalid, isDibsError } from "../core/errors.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/show.ts";
import type { Body, TaskRecord } from "../core/task.ts";
import type { Verified } from "../core/verification.ts";
import type { Task } from "./task.ts";

/** True accepts. What is refused goes back, to another worker, with the reason as its `task.feedback`. */
export type Verdict = boolean | { refuse: string };

/** The handler of the tasks that ask for a verdict. `judge` gets the task and the result as they are stored. */
export function verifierOf(
  port: Port,
  judge: (task: TaskRecord, result: Body | null) => Promise<Verdict> | Verdict,
): (task: Task<Verified>) => Promise<void> {
  return async (asking) => {
    const of = asking.data;
    const pending = await findPending(port, of);
    // Cancelled, or judged by somebody else: there is nothing to say.
    if (!pending) return;
    const { queue, attempt } = pending.task;
    const refuse = (feedback: string) =>
      asking.settleAs({ kind: "refuse", of: { ...of, queue, attempt }, feedback });
    const feedback = await feedbackOf(() => judge(pending.task, pending.result));
    if (feedback !== undefined) return refuse(feedback);
    try {
      await asking.settleAs({ kind: "accept", of });
    } catch (error) {
      // It can never be accepted: more verifiers would not change that.
      if (!isDibsError(error) || error.retryable || NOT_OF_THE_RESULT.has(error.code)) throw error;
      await refuse(`It was accepted, and cannot count: ${error.message}`);
    }
  };
}

const NOT_OF_THE_RESULT: ReadonlySet<ErrorCode> = new Set([
  "CLAIM_LOST",
  "CLOSED",
  "FORBIDDEN",
  "UNAVAILABLE",
]);

/** Why it is refused; undefined where it is not. Rejecting a task is a verdict on it, and says why. */
async function feedbackOf(judge: () => Promise<Verdict> | Verdict): Promise<string | undefined> {
  try {
    return feedbackFrom(await judge());
  } catch (error) {
    if (!isReject(error)) throw error;
    return (error as Error).message || NO_REASON;
  }
}

async function findPending(port: Port, of: Verified) {
  try {
    return await port.verifying(of);
  } catch (error) {
    if (isDibsError(error) && error.code === "TASK_NOT_FOUND") return undefined;
    throw error;
  }
}

const NO_REASON = "The verifier refused it, and did not say why.";

function feedbackFrom(verdict: unknown): string | undefined {
  if (verdict === true) return undefined;
  if (verdict === false) return NO_REASON;
  const { refuse } = (verdict ?? {}) as { refuse?: unknown };
  if (typeof refuse === "string") return refuse || NO_REASON;
  throw invalid(`A verifier returns true, false or { refuse: "why" }; got ${show(verdict)}.`);
}
