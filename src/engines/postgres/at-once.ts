import type { Op } from "../../engine/engine.ts";
import { addAtOnce, countByQueue } from "./add-plainly.ts";
import { outcomesOf, plainAdds } from "./add-together.ts";
import { claimAtOnce, isUsualClaim } from "./claim-head.ts";
import { fateOf } from "./failure.ts";
import type { CommitMark } from "./life.ts";
import { CommitLost, NOTHING, type Ran, type RunOptions } from "./ran.ts";
import type { Tx } from "./tx.ts";

/**
 * Carries out a batch that is one statement, which asks itself for what the header would tell, and writes the counters and
 * all: a worker that waits for a task gets it sooner.
 *
 * Undefined: it is not that simple, or the store was not as expected. The statement sees to that itself, and has done nothing
 * then: the batch is to be carried out step by step.
 */
export async function atOnce(tx: Tx, ops: readonly Op[], options: RunOptions): Promise<Ran | undefined> {
  if (!tx.canBeAtOnce) return undefined;
  const [first] = ops;
  if (first?.verb === "claim") return ops.length === 1 ? claim(tx, first) : undefined;
  return first?.verb === "add" ? add(tx, ops, options) : undefined;
}

/**
 * Its commit goes along with it. Where the answer is lost, nobody can say what it has claimed: so it is only for what its caller
 * can set right. A worker tells the store which claims it has (`reconcile`); before that the server's process is ended, which
 * may not have begun with it.
 */
async function claim(tx: Tx, op: Op<"claim">): Promise<Ran | undefined> {
  if (!isUsualClaim(tx, op) || !tx.link.backend) return undefined;
  tx.beginAtOnce();
  try {
    const outcome = await claimAtOnce(tx, op);
    const { changed, hint } = tx;
    return outcome && { ...NOTHING, outcomes: [outcome], changed, hint, stirred: [...tx.floors.stirred] };
  } catch (error) {
    tx.forget();
    const isUnknown = fateOf(error) === "reconnect" && !wasRefused(error);
    throw isUnknown ? new CommitLost(error, { mark: null, backend: tx.link.backend }) : error;
  }
}

/** The server itself has said that it did not happen, whatever the connection is worth. */
function wasRefused(error: unknown): boolean {
  return (error as { severity?: string }).severity === "ERROR";
}

/** Its commit waits for the answer, by which it can be looked up. */
async function add(tx: Tx, ops: readonly Op[], { onSent, wordFor }: RunOptions): Promise<Ran | undefined> {
  const adds = plainAdds(tx, ops);
  if (!adds) return undefined;
  tx.beginAtOnce();
  let lost: { ran: Ran; mark: CommitMark } | undefined;
  try {
    const tasks = adds.flat();
    const counts = countByQueue(tasks);
    for (const [queue, count] of counts) tx.hintReady(tx.queues.named(queue)!, count);
    const ran: Ran = { ...NOTHING, changed: true, hint: tx.hint };
    const word = wordFor?.(ran);
    ran.told = word !== undefined;
    const done = await addAtOnce(tx, tasks, { word, counts });
    if (!done) {
      await tx.link.exec("ROLLBACK");
      return undefined;
    }
    lost = { ran, mark: done.mark };
    const committed = tx.commit();
    // The ids of thousands are made while it is under way.
    ran.outcomes = outcomesOf({ adds, added: done.added() });
    onSent?.();
    await committed;
    return ran;
  } catch (error) {
    if (!lost) return tx.undo(tx.firstFailure(error));
    throw fateOf(error) === "reconnect" ? new CommitLost(error, lost) : error;
  }
}
