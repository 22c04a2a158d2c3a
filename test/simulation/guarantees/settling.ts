import type { Op, Outcome } from "../../../src/engine/engine.ts";
import type { Settlement } from "../../../src/engine/settlement.ts";
import { checkAdded, refusalOfAdds } from "./adding.ts";
import type { Entry } from "./books.ts";
import { checkFence, endClaim } from "./holding.ts";
import { expectedAdds } from "./publishing.ts";
import { hasHeard } from "./stepping.ts";
import { checkAsking, checkVerdict } from "./verifying.ts";
import type { Turn } from "./turn.ts";
import { check } from "./violation.ts";

export function checkSettle(turn: Turn, op: Op<"settle">, outcome: Outcome<"settle">): void {
  const entry = checkFence(turn, op, outcome);
  if (!entry) return;
  const { books } = turn;
  const { settlement } = op;
  const { cancelled } = entry.holder!;
  if (settlement.kind === "done" && !cancelled) {
    const { maxPayload } = books.policy(entry.task.queue);
    const large =
      settlement.result !== null && Buffer.from(settlement.result as string).byteLength > maxPayload;
    const expected = large
      ? "PAYLOAD_TOO_LARGE"
      : refusalOfAdds(turn, expectedAdds(books, settlement.adds ?? []));
    const refusal = "refused" in outcome ? outcome.refused.code : undefined;
    check(refusal === expected, `settle was refused with ${refusal}; it should be with ${expected}`);
    if (refusal !== undefined) return;
    if (books.policy(entry.task.queue).verified) return checkAsking(turn, entry, settlement);
  }
  if (settlement.kind === "verdict") return checkVerdict(turn, entry, settlement, outcome);
  check("ok" in outcome, () => `settle was refused: ${JSON.stringify(outcome)}`);
  switch (settlement.kind) {
    case "done":
      endClaim(turn, entry, cancelled ? "cancelled" : "done");
      break;
    case "reject":
      endClaim(turn, entry, cancelled ? "cancelled" : "rejected");
      break;
    case "fail":
      endClaim(turn, entry, settlement.outcome ?? "failed", settlement.delay);
      break;
    case "release":
      endClaim(
        turn,
        entry,
        cancelled ? "cancelled" : "released",
        settlement.delay,
        settlement.started || cancelled,
      );
      break;
    case "hold":
      // With limits, guarantees/limits.ts checks this instead.
      throw new Error("Holds are not part of this simulation.");
    case "park":
      checkPark(turn, entry, settlement);
      break;
  }
  const record = turn.after.tasks.get(op.id)!;
  check(
    outcome.ok.state === record.state,
    `settle answered ${outcome.ok.state}; the task is ${record.state}`,
  );
  if (settlement.kind !== "done" || cancelled) return;
  // Atomic hand-over: the adds exist as soon as the task is done.
  check(String(record.result) === String(settlement.result), `task ${op.id} lost its result`);
  checkAdded(turn, expectedAdds(books, settlement.adds ?? []), null);
}

/** Parked, unless the signal or its timeout is already known. */
function checkPark(turn: Turn, entry: Entry, { signal, timeout }: Settlement & { kind: "park" }): void {
  const { books } = turn;
  const { cancelled } = entry.holder!;
  if (cancelled || hasHeard(entry, signal) || books.isOutlived(entry)) {
    endClaim(turn, entry, cancelled ? "cancelled" : "parked");
    return;
  }
  const { fence, worker, startedAt } = entry.holder!;
  entry.holder = null;
  const attempt = entry.failures + 1;
  entry.rows.push({ attempt, fence, worker, startedAt, endedAt: books.now, outcome: "parked" });
  const record = turn.expect(entry, "parked", timeout === null ? null : books.now + timeout);
  check(record.waitsFor === signal, `task ${entry.id} waits for ${record.waitsFor}, not for ${signal}`);
}
