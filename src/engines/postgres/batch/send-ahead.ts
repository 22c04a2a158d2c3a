import type { Op } from "../../../engine/engine.ts";
import { addsAhead } from "../verbs/add-together.ts";
import { claimAhead } from "../verbs/claim-fast.ts";
import { settleAhead } from "../verbs/settle-together.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Sends the first operations of a batch along with its header, as if that said what it most likely will: a round trip
 * less. Each statement checks for itself what the header would have told, and does nothing where it is otherwise; then
 * the operation is carried out as if it had never been sent.
 *
 * Only the first: what comes after another operation has to wait for that one's end.
 *
 * Answers how many tasks' numbers will certainly be asked for.
 */
export function sendAhead(tx: Tx, ops: readonly Op[]): number {
  const [first] = ops;
  if (first?.verb === "settle") settleAhead(tx, ops);
  else if (first?.verb === "claim") claimAhead(tx, first);
  else if (first?.verb === "add") return addsAhead(tx, ops);
  return 0;
}
