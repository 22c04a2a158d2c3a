import type { Op, TransactionVerb, Verbs } from "../../../engine/engine.ts";
import { settleWithin } from "./caller-ack.ts";
import { CallerTransaction } from "./caller-transaction.ts";
import type { StoreLookups } from "./store-lookups.ts";

/** Executes one operation in the caller's transaction, for the engine. `xid`: set if it left an inbox entry. */
export async function executeInCallersTransaction<V extends TransactionVerb>(
  tx: unknown,
  op: Op<V>,
  lookups: StoreLookups,
): Promise<{ answer: Verbs[V]["out"]; xid: string | undefined }> {
  const within = await CallerTransaction.begin(tx, lookups);
  const answer = (await executeVerb(within, op)) as Verbs[V]["out"];
  return { answer, xid: within.xid };
}

function executeVerb(
  within: CallerTransaction,
  op: Op<TransactionVerb>,
): Promise<Verbs[TransactionVerb]["out"]> {
  switch (op.verb) {
    case "add":
      return within.add(op.tasks);
    case "publish":
      return within.publish(op.message);
    case "settle":
      return settleWithin(within, op.id, op.fence, op.settlement, op.spent);
  }
}
