import type { Op } from "../../../engine/engine.ts";
import { addsAhead } from "../verbs/add-together.ts";
import { claimAhead } from "../verbs/claim.ts";
import { settleAhead } from "../verbs/settle-together.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Sends the statement of a batch's first operations together with the header, without waiting for the header's answer:
 * two round trips instead of three. store.ts passes this function to Tx.begin. The statement itself checks what it
 * assumes about the store, and does nothing if that is wrong. Then the operations are executed after the header's
 * answer, as all others. Only the first operations can be sent ahead, because later ones must wait for them.
 *
 * Measured over loopback, medians of three interleaved rounds: pick-up 3.1 ms instead of 3.7, drains at concurrency 100, 10
 * and 1 by 9, 3 and 9 % faster.
 */
export function sendAhead(tx: Tx, ops: readonly Op[]): void {
  const [first] = ops;
  if (first?.verb === "settle") settleAhead(tx, ops);
  else if (first?.verb === "claim") claimAhead(tx, first);
  else if (first?.verb === "add") addsAhead(tx, ops);
}
