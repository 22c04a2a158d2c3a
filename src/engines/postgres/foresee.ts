import type { Op } from "../../engine/engine.ts";
import { claimAhead } from "./claim-head.ts";
import { settleAhead } from "./settle-together.ts";
import type { Tx } from "./tx.ts";

/**
 * Sends the first operations of a batch along with its header, as if that said what it most likely will: a round trip
 * less. Each statement checks for itself what the header would have told, and does nothing where it is otherwise; then
 * the operation is carried out as if it had never been sent.
 *
 * Only the first: what comes after another operation has to wait for that one's end.
 */
export function sendAhead(tx: Tx, ops: readonly Op[]): void {
  const [first] = ops;
  if (first?.verb === "settle") settleAhead(tx, ops);
  else if (first?.verb === "claim") claimAhead(tx, first);
}
