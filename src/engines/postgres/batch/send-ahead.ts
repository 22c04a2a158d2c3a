import type { Op } from "../../../engine/engine.ts";
import { addsAhead } from "../verbs/add-together.ts";
import { claimAhead } from "../verbs/claim-fast.ts";
import { settleAhead } from "../verbs/settle-together.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Sends the first operations of a batch together with its header, before the header is answered: one round trip less.
 * store.ts passes it to Tx.begin. Each statement checks by itself what the header would have said, and does nothing if
 * that differs; the operation is then executed in its turn. Later operations must wait for the ones before them.
 * Returns how many task numbers the batch certainly needs.
 */
export function sendAhead(tx: Tx, ops: readonly Op[]): number {
  const [first] = ops;
  if (first?.verb === "settle") settleAhead(tx, ops);
  else if (first?.verb === "claim") claimAhead(tx, first);
  else if (first?.verb === "add") return addsAhead(tx, ops);
  return 0;
}
