import type { Op, Outcome } from "../../../engine/engine.ts";
import { settledBy } from "../flows/run-locks.ts";
import { followEnds } from "../line/follow-ends.ts";
import { continueExpired } from "../verbs/continue-expired.ts";
import { forgetIdleLanes } from "../line/free-groups.ts";
import type { Tx } from "../transaction/tx.ts";
import { addTogether } from "../verbs/add-together.ts";
import { claimTogether } from "../verbs/claim.ts";
import { settleTogether } from "../verbs/settle-together.ts";
import { executeOne } from "./verbs.ts";

/** Executes the operations of a batch in their order, for store.ts. Those of a kind that follow each other are combined. */
export async function executeAll(tx: Tx, ops: readonly Op[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  let hasRunLocks = false;
  const single = async (op: Op): Promise<Outcome> => {
    // Once for all settlements: one statement instead of one for each.
    if (op.verb === "settle" && !hasRunLocks) {
      hasRunLocks = true;
      await tx.runs.hold(settledBy(tx, ops));
    }
    // It may set limits, and then the lanes of all groups count.
    if (op.verb === "declare") await forgetIdleLanes(tx);
    const outcome = await executeOne(tx, op);
    await followEnds(tx);
    return outcome;
  };
  while (outcomes.length < ops.length) {
    const from = outcomes.length;
    const op = ops[from]!;
    const combined =
      op.verb === "add" || op.verb === "publish"
        ? await addTogether(tx, ops, from)
        : op.verb === "settle"
          ? await settleTogether(tx, ops, from, single)
          : [];
    if (op.verb === "claim" && ops[from + 1]?.verb === "claim") claimTogether(tx, ops, from);
    if (combined.length > 0) for (const outcome of combined) outcomes.push(outcome);
    else outcomes.push(await single(op));
    if (tx.batch.expired.length === 0) continue;
    await continueExpired(tx);
    // The queue in which they continue may be full, and then drops tasks.
    await followEnds(tx);
  }
  return outcomes;
}
