import type { DibsError } from "../core/errors.ts";
import type { Port, SettleRef, Word } from "../core/port.ts";
import type { AttemptOutcome, TaskState } from "../core/task.ts";

/** What the ledger says of a claim that ended by this word. A cancelled task ends with that, whatever is said. */
const OUTCOMES: Record<Word["kind"], AttemptOutcome[]> = {
  ack: ["done", "cancelled"],
  nack: ["failed", "timeout", "cancelled"],
  reject: ["rejected", "cancelled"],
  release: ["released", "cancelled"],
};

/**
 * A settlement whose answer was lost was sent again, and the claim is gone. A fence is one holder's: if the ledger says
 * that the claim ended as we said, it was we who ended it, and the first sending was carried out.
 */
export async function settledBefore(
  port: Pick<Port, "history" | "task">,
  { id, fence }: SettleRef,
  word: Word,
  refusal: DibsError,
): Promise<{ state: TaskState }> {
  if (refusal.code !== "CLAIM_LOST") throw refusal;
  // It leaves no row, and whoever gave a task back does not ask where it went.
  if (word.kind === "release" && !word.started) return { state: "ready" };
  const attempt = (await port.history(id)).find((row) => row.fence === fence);
  if (!attempt || !OUTCOMES[word.kind].includes(attempt.outcome)) throw refusal;
  if (attempt.outcome === "timeout" && !(word.kind === "nack" && word.outcome === "timeout")) throw refusal;
  return { state: (await port.task(id)).state };
}
