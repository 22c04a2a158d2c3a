import type { ClaimOutcome } from "../../../engine/claim-request.ts";
import type { Op, Outcome } from "../../../engine/engine.ts";
import { sessionGone } from "../../../core/lease.ts";
import { classifyFailure } from "../connection/failure.ts";
import { allAnswered } from "../statements/all-answered.ts";
import type { Tx } from "../transaction/tx.ts";
import { type Found, WholeClaim } from "../verbs/claim-whole.ts";
import { refusal } from "../verbs/refusal.ts";
import { type BatchResult, CommitLost } from "./batch-result.ts";

/**
 * The claim of an idle worker in one round trip: begin, claim and commit are sent together. store.ts tries it before the
 * usual way, which takes two round trips and two more statements. Pick-up took 4.1 ms (3.9 to 4.3) with this, and 4.8
 * (4.7 to 5.1) without it; medians and ranges of three interleaved rounds on a busy machine.
 *
 * The statement decides alone, so it does nothing if anything is unusual (verbs/claim-whole.ts), and the batch is then
 * executed in the usual way. If the connection is lost before the statement is answered, the outcome cannot be looked up.
 * So this is for claims that wait: their worker reports what it holds, and continues (docs/decisions/0023).
 */

/**
 * Only on a connection that was idle for so long. The next batch cannot be sent behind such a claim, and of many tasks it
 * takes few: without this bound, a drain at concurrency 1 ran at 7,700 tasks a second instead of 8,700. A test sets it to 0.
 */
export const IDLE = { ms: 2 };
/** After a claim that had to take the usual way: the next ones are most likely like it. */
const PAUSE_MS = 1_000;

export class ClaimsAtOnce {
  readonly #tx: Tx;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #endedAt = Number.NEGATIVE_INFINITY;

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** A batch has ended on this connection. */
  noteEnd(): void {
    this.#endedAt = performance.now();
  }

  /** Undefined: nothing was changed, and the batch has to be executed in the usual way. */
  async run(ops: readonly Op[]): Promise<BatchResult | undefined> {
    const [op] = ops;
    if (op?.verb !== "claim" || ops.length > 1 || op.waitingId === undefined) return undefined;
    if (performance.now() < Math.max(this.#pausedUntil, this.#endedAt + IDLE.ms)) return undefined;
    const claim = WholeClaim.of(this.#tx, op);
    if (!claim) return undefined;
    const found = await this.#send(claim);
    if (found?.taken === "gone") return this.#resultOf(refusal(sessionGone(op.session!)));
    const outcome = found && found.taken !== "busy" ? await claim.outcomeOf(found.taken) : undefined;
    if (!outcome || outcome.more) this.#pausedUntil = performance.now() + PAUSE_MS;
    return outcome && this.#resultOf({ ok: outcome });
  }

  /** Undefined if it was certainly rolled back. */
  async #send(claim: WholeClaim): Promise<Found | undefined> {
    const tx = this.#tx;
    let found: Found | undefined;
    try {
      tx.beginWhole();
      const answered = claim.send().then((answer) => (found = answer));
      await allAnswered([answered, tx.commit()]);
      return found;
    } catch (error) {
      tx.forget();
      if (classifyFailure(error) !== "reconnect" || (!found && isAnswer(error))) return undefined;
      // Without a number its outcome stays unknown.
      const { xid = null, taken } = found ?? {};
      const outcome = await claim.outcomeOf(xid !== null && Array.isArray(taken) ? taken : []);
      const result = this.#resultOf({ ok: outcome });
      throw new CommitLost(error, { result, mark: { xid, incarnation: tx.incarnation } });
    }
  }

  #resultOf(outcome: Outcome | { ok: ClaimOutcome }): BatchResult {
    const { batch, changed, floors } = this.#tx;
    return {
      outcomes: [outcome],
      hint: batch.hint,
      changed,
      hasNotices: false,
      loweredFloors: [...floors.loweredFloors],
      hasListeners: false,
      hasInbox: false,
      leftInboxEntries: false,
      isNotified: false,
    };
  }
}

/** The server refused the statement, or ended the connection before it. In both cases the commit was not executed. */
function isAnswer(error: unknown): boolean {
  return (error as { severity?: string }).severity !== undefined;
}
