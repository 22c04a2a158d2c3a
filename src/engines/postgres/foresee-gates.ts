import type { ClaimOutcome, Op, Outcome } from "../../engine/engine.ts";
import { isLimitedNow } from "./gates.ts";
import type { Tx } from "./tx.ts";

/** Who claims from more queues than these has little hope to find all of their gates free at once, and little need of most. */
const MOST_GATES = 8;

/** Claims that are remembered: more than a process has, but for those that others have ended. */
const MOST = 10_000;

/**
 * Which gates a batch will need: to wait for them before it begins costs less than to find one taken, and to begin again.
 * A guess, which may be wrong.
 */
export class ForeseenGates {
  /** The queues of tasks that were claimed here, and whose ends need the gate. */
  readonly #queues = new Map<string, string>();

  of(tx: Tx, ops: readonly Op[]): number[] {
    if (!tx.queues.hasLimits) return [];
    const names = new Set(ops.flatMap((op) => this.#queuesOf(op)));
    const queues = [...names].flatMap((name) => tx.queues.named(name) ?? []);
    const gates = queues.filter(isLimitedNow).map(({ id }) => id);
    return gates.length > MOST_GATES ? [] : gates;
  }

  #queuesOf(op: Op): string[] {
    if (op.verb === "claim") return op.queues;
    if (op.verb === "add")
      return op.tasks.filter(({ groupKey }) => groupKey !== undefined).map(({ queue }) => queue);
    if (op.verb !== "settle") return [];
    const queue = this.#queues.get(op.id);
    return queue === undefined ? [] : [queue];
  }

  note(tx: Tx, ops: readonly Op[], outcomes: readonly Outcome[]): void {
    if (!tx.queues.hasLimits) return;
    for (const [index, op] of ops.entries()) {
      const outcome = outcomes[index]!;
      if (!("ok" in outcome)) continue;
      if (op.verb === "settle") this.#queues.delete(op.id);
      if (op.verb === "claim") this.#remember(outcome.ok as ClaimOutcome);
    }
  }

  #remember({ tasks }: ClaimOutcome): void {
    for (const { id, queue, groupKey } of tasks) if (groupKey !== null) this.#queues.set(id, queue);
    for (const id of this.#queues.keys()) {
      if (this.#queues.size <= MOST) return;
      this.#queues.delete(id);
    }
  }
}
