import { invalid, isDibsError } from "../core/errors.ts";
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
    const feedback = feedbackFrom(await judge(pending.task, pending.result));
    if (feedback === undefined) return asking.settleAs({ kind: "accept", of });
    const { queue, attempt } = pending.task;
    return asking.settleAs({ kind: "refuse", of: { ...of, queue, attempt }, feedback });
  };
}

async function findPending(port: Port, of: Verified) {
  try {
    return await port.verifying(of);
  } catch (error) {
    if (isDibsError(error) && error.code === "TASK_NOT_FOUND") return undefined;
    throw error;
  }
}

function feedbackFrom(verdict: unknown): string | undefined {
  if (verdict === true) return undefined;
  if (verdict === false) return "The verifier refused it, and did not say why.";
  const { refuse } = (verdict ?? {}) as { refuse?: unknown };
  if (typeof refuse === "string" && refuse !== "") return refuse;
  throw invalid(`A verifier returns true, false or { refuse: "why" }; got ${show(verdict)}.`);
}
