import { isDeepStrictEqual } from "node:util";
import { isEnd, type Step } from "../../../src/core/task/task.ts";
import type { Op, Outcome } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import type { Books, Entry } from "./books.ts";
import { checkFence } from "./holding.ts";
import type { Turn } from "./turn.ts";
import { check } from "./violation.ts";

/** A handler's steps stay for its next attempt. A signal arrives once, and no task waits for one that has arrived. */

export function checkStep(turn: Turn, op: Op<"step">, outcome: Outcome<"step">): void {
  checkFence(turn, op, outcome)?.steps.set(`step ${op.name}`, op.value);
}

/** Whether the signal arrived, or timed out. */
export function hasHeard({ steps }: Entry, name: string): boolean {
  return steps.has(`signal ${name}`) || steps.has(`timeout ${name}`);
}

export function checkSignal(turn: Turn, op: Op<"signal">, outcome: Outcome<"signal">): void {
  const entry = turn.books.entries.get(op.id);
  check("ok" in outcome === (entry !== undefined), `signal answered ${JSON.stringify(outcome)}`);
  if (!entry) return;
  const { kept, state } = answer<"signal">(outcome);
  const was = turn.before.tasks.get(op.id)!;
  check(kept === !(isEnd(was.state) || hasHeard(entry, op.name)), `signal says kept: ${kept}`);
  if (kept) entry.steps.set(`signal ${op.name}`, op.value);
  const wakes = kept && was.state === "parked" && was.waitsFor === op.name;
  const expected = !wakes ? was.state : turn.books.isOutlived(entry) ? "expired" : "ready";
  check(state === expected, `signal answered ${state}; it should be ${expected}`);
  if (wakes) turn.expect(entry, expected);
}

export function checkSteps(books: Books, op: Op<"steps">, outcome: Outcome<"steps">): void {
  const entry = books.entries.get(op.id);
  check("ok" in outcome === (entry !== undefined), `steps answered ${JSON.stringify(outcome)}`);
  if (!entry) return;
  const name = ({ kind, name: of }: Step): string => `${kind} ${of}`;
  const seen = answer<"steps">(outcome).map((step) => [name(step), step.value]);
  const expected = [...entry.steps].sort(([a], [b]) => (a < b ? -1 : 1));
  check(
    isDeepStrictEqual(seen, expected),
    () => `the steps of ${op.id} are ${JSON.stringify(seen)}; they should be ${JSON.stringify(expected)}`,
  );
}
