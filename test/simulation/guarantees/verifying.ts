import { isEnd } from "../../../src/core/task/task.ts";
import {
  isVerificationQueue,
  NO_VERDICT,
  verificationTask,
  verifiedBy,
} from "../../../src/core/handler/verification.ts";
import type { Outcome } from "../../../src/engine/engine.ts";
import type { Settlement } from "../../../src/engine/settlement.ts";
import { checkAdded, refusalOfAdds } from "./adding.ts";
import type { Entry } from "./books.ts";
import { expectedAdds } from "./publishing.ts";
import { endClaim } from "./holding.ts";
import type { Turn } from "./turn.ts";
import { check } from "./violation.ts";

/** A result in a verified queue becomes visible, and its tasks are added, when it was accepted, and only then. */

export function checkAsking(turn: Turn, entry: Entry, { result, adds }: Settlement & { kind: "done" }): void {
  const holder = entry.holder!;
  entry.holder = null;
  entry.pending = { holder, result, adds: adds ?? [] };
  const record = turn.expect(entry, "verifying");
  check(record.result === null, `task ${entry.id} shows its result before it was accepted`);
  const { fence } = holder;
  checkAdded(turn, [verificationTask(entry.task.queue, { id: entry.id, fence })], null);
}

export function checkVerdict(
  turn: Turn,
  entry: Entry,
  verdict: Settlement & { kind: "verdict" },
  outcome: Outcome<"settle">,
): void {
  const { cancelled } = entry.holder!;
  const judged = turn.books.entries.get(verdict.of.id);
  const counts = !cancelled && judged?.pending?.holder.fence === verdict.of.fence;
  if (counts && verdict.accepted) {
    const expected = refusalOfAdds(turn, expectedAdds(turn.books, judged.pending!.adds));
    const refusal = "refused" in outcome ? outcome.refused.code : undefined;
    check(refusal === expected, `a verdict was refused with ${refusal}; it should be with ${expected}`);
    if (refusal !== undefined) return;
  }
  check("ok" in outcome, () => `a verdict was refused: ${JSON.stringify(outcome)}`);
  endClaim(turn, entry, cancelled ? "cancelled" : "done");
  if (!counts) return;
  const { holder, result, adds } = judged.pending!;
  judged.pending = null;
  judged.holder = holder;
  if (verdict.accepted) {
    endClaim(turn, judged, "done");
    const record = turn.after.tasks.get(judged.id)!;
    check(String(record.result) === String(result), `task ${judged.id} lost its result`);
    checkAdded(turn, expectedAdds(turn.books, adds), null);
    return;
  }
  startOver(judged);
  judged.feedback = verdict.feedback;
  endClaim(turn, judged, "refused", verdict.delay);
}

/**
 * A task that asked for a verdict has ended, or was removed, without one: the result that it asked about has failed.
 */
export function checkMissed(turn: Turn): void {
  const { books, before, after } = turn;
  for (const { id, queue, data, state } of before.tasks.values()) {
    if (!isVerificationQueue(queue) || isEnd(state)) continue;
    const now = after.tasks.get(id);
    const of = now === undefined || isEnd(now.state) ? verifiedBy(data) : undefined;
    const judged = of && books.entries.get(of.id);
    if (!judged?.pending || judged.pending.holder.fence !== of!.fence) continue;
    judged.holder = judged.pending.holder;
    judged.pending = null;
    startOver(judged);
    judged.feedback = NO_VERDICT;
    endClaim(turn, judged, "refused");
  }
}

/** Removes the steps that led to the refused result. Signals stay. */
function startOver({ steps }: Entry): void {
  for (const name of steps.keys()) if (name.startsWith("step ")) steps.delete(name);
}
