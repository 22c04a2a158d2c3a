import { isLarger } from "../../core/limits.ts";
import type { TaskPlace } from "../../core/task-id.ts";
import type { Body } from "../../core/task.ts";
import type { Op, Outcome } from "../../engine/engine.ts";
import { chunks, sized } from "./chunks.ts";
import type { Tx } from "./tx.ts";

interface Success {
  op: Op<"settle">;
  place: TaskPlace;
  result: Body | null;
}

/**
 * Settles successes that follow each other all at once, from `from` on; answers none where there are not several.
 * Most are alike: no key, no group, not cancelled. The others are settled `alone`; since nothing is added by any
 * of them, the order makes no difference.
 */
export function settleTogether(
  tx: Tx,
  ops: readonly Op[],
  from: number,
  alone: (op: Op<"settle">) => Outcome,
): Outcome[] {
  // Events tell of each in its order.
  const successes = tx.listeners > 0 ? [] : successesFrom(tx, ops, from);
  if (successes.length < 2) return [];
  const settled = new Set<number>();
  for (const chunk of chunks(successes)) for (const seq of endAll(tx, chunk)) settled.add(seq);
  return successes.map(({ op, place }) => (settled.has(place.seq) ? { ok: { state: "done" } } : alone(op)));
}

function successesFrom(tx: Tx, ops: readonly Op[], from: number): Success[] {
  const successes: Success[] = [];
  const seen = new Set<number>();
  for (let i = from; i < ops.length; i++) {
    const op = ops[i]!;
    if (op.verb !== "settle" || op.settlement.kind !== "done") break;
    const { result, adds } = op.settlement;
    const place = tx.place(op.id);
    if (!place || seen.has(place.seq) || (adds && adds.length > 0)) break;
    if (result !== null && isLarger(result, tx.leastPayload)) break;
    seen.add(place.seq);
    successes.push({ op, place, result });
  }
  return successes;
}

const INSERT_DONE = sized(
  `INSERT INTO ended (task, queue, state, ended_at, started_at, attempt, fence, worker, result)
   SELECT claim.task, claim.queue, 'done', :now, claim.started_at, claim.failures + 1, claim.fence, claim.worker,
     settled.column3
   FROM (VALUES `,
  () => `(?, ?, ?)`,
  `) AS settled CROSS JOIN claim ON claim.task = settled.column1
   WHERE claim.fence = settled.column2 AND claim.special = 0 AND claim.cancelled = 0
   RETURNING task, queue, started_at`,
);
const DELETE_CLAIMS = sized(`DELETE FROM claim WHERE task IN (`, () => `?`, `)`);

/** Answers the numbers of those it settled. */
function endAll(tx: Tx, successes: readonly Success[]): number[] {
  const values = successes.flatMap(({ op, place, result }) => [place.seq, op.fence, result]);
  const rows = tx.takeMany<[task: number, queue: number, startedAt: number]>(
    INSERT_DONE(successes.length),
    values,
    { now: tx.now },
  );
  const settled = rows.map(([task]) => task);
  for (const chunk of chunks(settled)) tx.runMany(DELETE_CLAIMS(chunk.length), chunk, {});
  for (const [, id, startedAt] of rows) {
    const queue = tx.queueOf(id);
    tx.count(queue, "claimed", -1);
    tx.count(queue, "done", 1);
    const flow = tx.flow(queue);
    flow.done++;
    flow.serviceMs += tx.now - startedAt;
  }
  if (rows.length > 0) tx.hint.ended = true;
  return settled;
}
