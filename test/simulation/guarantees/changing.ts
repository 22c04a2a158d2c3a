import { isLarger } from "../../../src/core/input/limits.ts";
import { isEnd, type TaskRecord } from "../../../src/core/task/task.ts";
import type { Op, Outcome } from "../../../src/engine/engine.ts";
import type { Entry } from "./books.ts";
import { checkBroughtBack } from "./removing.ts";
import type { Turn } from "./turn.ts";
import { check } from "./violation.ts";

/** The verb `change` affects one task, and only if no worker has it. */

export function checkChange(turn: Turn, op: Op<"change">, outcome: Outcome<"change">): void {
  const entry = turn.books.entries.get(op.id);
  const expected = refusal(turn, entry, op);
  const refused = "refused" in outcome ? outcome.refused.code : undefined;
  check(refused === expected, `change was refused with ${refused}; it should be with ${expected}`);
  if (!entry || "refused" in outcome) return;
  const { change } = op;
  const { state, changed } = outcome.ok;
  const was = turn.before.tasks.get(op.id)!;
  if (change.kind === "again") {
    checkBroughtBack(turn, entry, { fresh: change.fresh ?? false, delay: 0 });
    check(changed, "a task that runs again is changed");
  } else {
    const isUpdated = change.kind === "update" && update(entry, was, change);
    const isMoved = move(turn, entry, was, change.kind === "promote" ? 0 : change.delay);
    check(changed === (isUpdated || isMoved), `change says changed: ${changed}`);
  }
  check(
    state === turn.after.tasks.get(op.id)!.state,
    `change answered ${state}; the task is ${turn.after.tasks.get(op.id)!.state}`,
  );
}

const WAITING: ReadonlySet<string> = new Set(["ready", "waiting", "scheduled"]);

function refusal(turn: Turn, entry: Entry | undefined, { id, change }: Op<"change">): string | undefined {
  if (!entry) return "TASK_NOT_FOUND";
  const { state, run } = turn.before.tasks.get(id)!;
  if (change.kind === "again")
    return isEnd(state) && (state === "dead" || run === null) ? undefined : "WRONG_STATE";
  if (!WAITING.has(state)) return "WRONG_STATE";
  const { maxPayload } = turn.books.policy(entry.task.queue);
  const isTooLarge =
    change.kind === "update" && change.data !== undefined && isLarger(change.data, maxPayload);
  return isTooLarge ? "PAYLOAD_TOO_LARGE" : undefined;
}

function update(
  entry: Entry,
  was: TaskRecord,
  { data, priority }: Op<"change">["change"] & { kind: "update" },
): boolean {
  if (data !== undefined) entry.task = { ...entry.task, data };
  if (priority !== undefined) entry.task = { ...entry.task, priority };
  return data !== undefined || (priority !== undefined && priority !== was.priority);
}

/** Returns whether it has left its place. */
function move(turn: Turn, entry: Entry, was: TaskRecord, delay: number | undefined): boolean {
  const { books } = turn;
  if (delay === undefined || (delay === 0 && was.state !== "scheduled")) {
    turn.expect(entry, was.state, was.dueAt);
    return false;
  }
  if (delay > 0) {
    // A failed head keeps its group waiting. Any other joins it again when it is due.
    if (entry.failures === 0) turn.freed(entry);
    turn.expect(entry, "scheduled", books.now + delay);
    return true;
  }
  if (entry.task.groupKey !== undefined && !entry.blocksGroup) entry.arrival = ++books.arrivals;
  const { state } = turn.after.tasks.get(entry.id)!;
  turn.expect(entry, entry.task.groupKey !== undefined && state === "waiting" ? "waiting" : "ready");
  return true;
}
