import type { AttemptOutcome, TaskState } from "../../../src/core/task/task.ts";
import type { Op, Outcome } from "../../../src/engine/engine.ts";
import type { Books, Entry } from "./books.ts";
import type { Turn } from "./turn.ts";
import { check } from "./violation.ts";

const FAILURES: ReadonlySet<AttemptOutcome> = new Set(["failed", "timeout", "lost", "refused"]);

/** Whether the claim is valid: every fenced verb must answer this in the same way. */
export function checkFence(
  turn: Turn,
  op: Op<"settle" | "extend" | "progress" | "step">,
  outcome: Outcome,
): Entry | undefined {
  const entry = turn.books.entries.get(op.id);
  const holds = entry?.holder != null && entry.holder.fence === op.fence;
  const lost = "refused" in outcome && outcome.refused.code === "CLAIM_LOST";
  check(
    holds !== lost,
    () =>
      `${op.verb} with fence ${op.fence}, which ${holds ? "holds" : "is stale"}, answered ${JSON.stringify(outcome)}`,
  );
  return holds ? entry : undefined;
}

/** The end of one attempt, by any cause: the state that the task must have then. */
export function endClaim(
  turn: Turn,
  entry: Entry,
  outcome: AttemptOutcome,
  delay = 0,
  inLedger = true,
): void {
  const { books } = turn;
  const { fence, worker, startedAt, cancelled } = entry.holder!;
  entry.holder = null;
  const attempt = entry.failures + 1;
  if (inLedger) entry.rows.push({ attempt, fence, worker, startedAt, endedAt: books.now, outcome });
  const { flow } = books.queue(entry.task.queue);
  if (outcome === "done") flow.push({ at: books.now, what: "done" });
  if (outcome === "rejected" || FAILURES.has(outcome)) flow.push({ at: books.now, what: "failed" });
  if (FAILURES.has(outcome)) {
    entry.failures++;
    entry.failedBy.push(worker);
  }
  const state = stateAfter(books, entry, outcome, cancelled, delay);
  const record = turn.expect(entry, state, state === "scheduled" ? books.now + delay : null);
  check(!record.cancelRequested && record.progress === null, `task ${entry.id} kept what was its claim's`);
  if (state === "done" || state === "dead") {
    check(
      record.worker === worker && record.attempt === attempt,
      `task ${entry.id} does not say who ended it`,
    );
  }
}

function stateAfter(
  books: Books,
  entry: Entry,
  outcome: AttemptOutcome,
  cancelled: boolean,
  delay: number,
): TaskState {
  if (cancelled) return "cancelled";
  if (outcome === "done") return "done";
  if (outcome === "rejected") return "dead";
  if (FAILURES.has(outcome) && entry.failures >= books.maxAttempts(entry)) return "dead";
  if (books.isOutlived(entry)) return "expired";
  return delay > 0 ? "scheduled" : "ready";
}
