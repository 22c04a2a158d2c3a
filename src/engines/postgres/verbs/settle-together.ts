import { isLarger } from "../../../core/limits.ts";
import type { Body } from "../../../core/task.ts";
import type { Op, Outcome } from "../../../engine/engine.ts";
import { endClaims, endSpecial } from "./settle-special.ts";
import type { SentAhead } from "../statements/statements.ts";
import { numbers, toColumns } from "../statements/text.ts";
import type { Value } from "../connection/connection.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The fast path of `settle`: the acks of a batch that follow each other, in bulk. batch/store.ts and send-ahead.ts
 * call it.
 */

interface Success {
  op: Op<"settle">;
  seq: number;
  result: Body | null;
}

/**
 * Settles successes that follow each other all at once, from `from` on; answers none where there are none.
 * Most are alike: not special, not cancelled, not to be judged. Those of groups, and with keys, are settled together too.
 * The others are settled `alone`, in their order; since these add nothing, it makes no difference that they come first.
 */
export async function settleTogether(
  tx: Tx,
  ops: readonly Op[],
  from: number,
  { alone, onSpecial }: { alone: (op: Op<"settle">) => Promise<Outcome>; onSpecial: () => void },
): Promise<Outcome[]> {
  // Events tell of each in its order.
  const foreseen = tx.foreseen.get(ops[from]!) as SentAhead<Success[], Row> | undefined;
  const successes = foreseen?.what ?? (tx.events.listeners > 0 ? [] : successesFrom(tx, ops, from));
  if (successes.length === 0) return [];
  const settled = await endAll(tx, successes, foreseen?.answer);
  if (settled.size < successes.length) {
    const left = successes.filter(({ seq }) => !settled.has(seq));
    const special = await endSpecial(tx, columnsOf(left));
    for (const seq of special) settled.add(seq);
    if (special.length > 0) onSpecial();
  }
  const outcomes: Outcome[] = [];
  for (const { op, seq } of successes) {
    outcomes.push(settled.has(seq) ? { ok: { state: "done" } } : await alone(op));
  }
  return outcomes;
}

function successesFrom(tx: Tx, ops: readonly Op[], from: number): Success[] {
  const successes: Success[] = [];
  const seen = new Set<number>();
  const most = tx.queues.leastPayload;
  for (let i = from; i < ops.length; i++) {
    const op = ops[i]!;
    if (op.verb !== "settle" || op.settlement.kind !== "done" || op.spent !== undefined) break;
    const { result, adds, each, next } = op.settlement;
    const place = tx.place(op.id);
    if (
      !place ||
      seen.has(place.seq) ||
      each ||
      next ||
      (adds && adds.length > 0) ||
      !Number.isSafeInteger(op.fence)
    )
      break;
    if (result !== null && isLarger(result, most)) break;
    seen.add(place.seq);
    successes.push({ op, seq: place.seq, result });
  }
  return successes;
}

const endAllSql = (bringing: "results" | "nothing"): string => `
  ${endClaims("NOT claim.special", { bringing })}
  SELECT queue, count(*)::int4, sum((SELECT now FROM moment) - started_at)::int8,
    CASE WHEN (SELECT count(*) FROM settled) < $5::int8 THEN array_agg(task) END
  FROM settled GROUP BY queue`;
const END_ALL = { results: endAllSql("results"), nothing: endAllSql("nothing") };

type Row = [queue: number, count: number, serviceMs: number, tasks: string[] | null];

/** The statement that ends them, and its values. */
function ending(successes: readonly Success[]): [sql: string, ...values: Value[]] {
  const bringing = successes.some(({ result }) => result !== null) ? "results" : "nothing";
  return [END_ALL[bringing], ...columnsOf(successes), successes.length];
}

function columnsOf(successes: readonly Success[]): Value[] {
  const bodies = successes.map(({ result }) => toColumns(result));
  const texts = bodies.map(([text]) => text);
  const bytes = bodies.map(([, each]) => each);
  return [
    numbers(successes.map(({ seq }) => seq)),
    numbers(successes.map(({ op }) => op.fence)),
    texts.every((text) => text === null) ? null : texts,
    bytes.every((each) => each === null) ? null : bytes,
  ];
}

/** Sends the first operations of a batch on their way, if they are successes. */
export function settleAhead(tx: Tx, ops: readonly Op[]): void {
  const successes = successesFrom(tx, ops, 0);
  if (successes.length > 0) tx.foresee(ops[0]!, successes, ...ending(successes));
}

/** Those whose claim holds, and that need nothing else; answers them. */
async function endAll(
  tx: Tx,
  successes: readonly Success[],
  foreseen: Promise<Row[]> | undefined,
): Promise<Set<number>> {
  const rows = await (foreseen ?? tx.rows<Row>(...ending(successes)));
  if (rows.length > 0) tx.changed = true;
  let total = 0;
  for (const [id, count, serviceMs] of rows) {
    total += count;
    const queue = tx.queues.of(id);
    tx.counters.count(queue, "claimed", -count);
    tx.counters.count(queue, "done", count);
    if (queue.policy.maxConcurrency !== null) tx.hintReady(queue, count);
    const flow = tx.counters.flow(queue);
    flow.done += count;
    flow.serviceMs += serviceMs;
  }
  // Told one by one only where some were not: it is the usual case that all were.
  const settled =
    total === successes.length
      ? successes.map(({ seq }) => seq)
      : rows.flatMap(([, , , tasks]) => (tasks ?? []).map(Number));
  return new Set(settled);
}
