import { isReject } from "../core/handler/control.ts";
import { type ErrorCode, invalid, isDibsError } from "../core/errors/errors.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import type { Body, TaskRecord } from "../core/task/task.ts";
import type { Verified } from "../core/handler/verification.ts";
import type { Task } from "./task.ts";

/** True accepts. A refused task goes to another worker, with the reason as its `task.feedback`. */
export type Verdict = boolean | { refuse: string };

/**
 * The handler of the tasks that ask for verdicts. `decide` gets the task and the result as they are stored.
 * `queue.verify()` calls this.
 */
export function verifierOf(
  port: Port,
  decide: (task: TaskRecord, result: Body | null) => Promise<Verdict> | Verdict,
  keepSteps: boolean,
): (task: Task<Verified>) => Promise<void> {
  return async (asking) => {
    const of = asking.data;
    const pending = await findPending(port, of);
    // The task was cancelled, or another verifier decided: nothing is left to do.
    if (!pending) return;
    const { queue, attempt } = pending.task;
    const refuse = (feedback: string) =>
      asking.settleAs({
        kind: "refuse",
        of: { ...of, queue, attempt },
        feedback,
        ...(keepSteps && { keepSteps }),
      });
    const feedback = await feedbackOf(() => decide(pending.task, pending.result));
    if (feedback !== undefined) return refuse(feedback);
    try {
      await asking.settleAs({ kind: "accept", of });
    } catch (error) {
      // This result can never be stored. Refuse it, because other verifiers would get the same error.
      if (!isDibsError(error) || error.retryable || NOT_OF_THE_RESULT.has(error.code)) throw error;
      await refuse(`The result was accepted but cannot be stored: ${error.message}`);
    }
  };
}

const NOT_OF_THE_RESULT: ReadonlySet<ErrorCode> = new Set([
  "CLAIM_LOST",
  "CLOSED",
  "FORBIDDEN",
  "UNAVAILABLE",
]);

/** Why the result is refused; undefined if it is not. A thrown Reject is a refusal with its message. */
async function feedbackOf(decide: () => Promise<Verdict> | Verdict): Promise<string | undefined> {
  try {
    return feedbackFrom(await decide());
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
